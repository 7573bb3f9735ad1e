//! Links in Markdown: what is linked to within the project is there.

use std::fs;
use std::path::Path;

use anyhow::ensure;

use super::Outcome;
use crate::workspace::Workspace;

/// Checks every relative link of every Markdown file.
pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let mut faults = Vec::new();
    for file in workspace.files("", ".md")? {
        let folder = file.parent().unwrap_or(&workspace.root);
        for broken in broken_links(&fs::read_to_string(&file)?, folder) {
            faults.push(format!("{}: nothing is at `{broken}`", workspace.relative(&file)));
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Outcome::Passed)
}

fn broken_links(markdown: &str, folder: &Path) -> Vec<String> {
    let here = |link: &String| {
        let path = link.split(['#', '?']).next().unwrap_or_default();
        path.is_empty() || folder.join(path).exists()
    };
    let elsewhere = |link: &String| link.contains("://") || link.starts_with("mailto:");
    links(markdown).into_iter().filter(|link| !elsewhere(link) && !here(link)).collect()
}

/// The targets of inline links, images and link definitions outside of code.
fn links(markdown: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second part lies between two backticks.
        let text: String = line.split('`').step_by(2).collect();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split([')', ' ']).next().unwrap_or_default();
            links.push(target.trim_matches(['<', '>']).to_owned());
        }
        if let Some((_, target)) = text.strip_prefix('[').and_then(|definition| definition.split_once("]: ")) {
            links.extend(target.split_whitespace().next().map(str::to_owned));
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let markdown = "See [a](a.md) and [`b`](<b/c.md#d> \"title\"), ![i](i.svg), not `[x](x.md)`.\n\
                        ```\n[y](y.md)\n```\n[z]: z.md\n";
        assert_eq!(links(markdown), ["a.md", "b/c.md#d", "i.svg", "z.md"]);
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("there.md"), "").unwrap();
        let markdown = "[a](there.md#x) [b](gone.md) [c](#anchor) [d](https://example.com/) [e](mailto:a@example.com)";
        assert_eq!(broken_links(markdown, folder.path()), ["gone.md"]);
    }
}

//! A report as one page that needs nothing else: no script, no font, no network.

use std::fmt::Write as _;

use super::look::escape;
use super::{busiest, drawn, has_plane, over_time, plane};
use crate::report::{Arm, OURS, Report, World};
use crate::table::{Column, blocks, columns};

/// All of a report as one HTML page: a table of all worlds, and for each world what it is, its policies as a table and as a
/// plane, and the runs that were sampled. It is light or dark as its viewer prefers.
pub fn html(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{TITLE}</title>\n\
         <style>{STYLE}</style>\n\
         </head>\n\
         <body>\n\
         <h1>{TITLE}</h1>\n\
         <p>{WHAT}</p>\n"
    );
    let several = report.worlds.iter().any(has_plane);
    for block in blocks(&report.worlds) {
        overview(&mut page, block, several);
    }
    for world in &report.worlds {
        section(&mut page, world);
    }
    let _ = write!(page, "<footer><p>{READING}</p></footer>\n</body>\n</html>\n");
    page
}

/// A row for each world, of our own policy, or the first that was asked for.
fn overview(page: &mut String, worlds: &[World], several: bool) {
    let columns = columns(worlds);
    page.push_str("<div class=\"wide\"><table>\n<thead><tr><th>world</th><th>policy</th>");
    heads(page, &columns);
    page.push_str(if several { "<th class=\"words\">as good in both, better in one</th>" } else { "" });
    page.push_str("</tr></thead>\n<tbody>\n");
    for world in worlds {
        let Some(arm) = world.arms.iter().find(|arm| arm.policy == OURS).or(world.arms.first()) else { continue };
        let (name, policy) = (escape(&world.name), escape(&arm.policy));
        let _ = write!(page, "<tr><th><a href=\"#{name}\">{name}</a></th><td class=\"words\">{policy}</td>");
        cells(page, arm, &columns);
        if several {
            let _ = write!(page, "<td class=\"words\">{}</td>", better(world));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

/// One world.
fn section(page: &mut String, world: &World) {
    let _ = writeln!(page, "<section id=\"{0}\">\n<h2>{0}</h2>\n<p>{1}</p>", escape(&world.name), escape(&world.about));
    if has_plane(world) {
        let columns = columns(std::slice::from_ref(world));
        page.push_str("<div class=\"beside\">\n<figure>");
        page.push_str(&plane(world));
        page.push_str("</figure>\n<div class=\"wide\"><table>\n<thead><tr><th>policy</th>");
        heads(page, &columns);
        page.push_str("</tr></thead>\n<tbody>\n");
        for arm in &world.arms {
            let class = if arm.policy == OURS { " class=\"ours\"" } else { "" };
            let _ = write!(page, "<tr{class}><th>{}</th>", escape(&arm.policy));
            cells(page, arm, &columns);
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table></div>\n</div>\n");
        if let Some(plane) = &world.plane {
            page.push_str("<ul>\n");
            for line in plane.to_string().lines() {
                let _ = writeln!(page, "<li>{}</li>", escape(line));
            }
            page.push_str("</ul>\n");
        }
    }
    let runs = drawn(std::slice::from_ref(world));
    for (run, host) in &runs {
        let _ = writeln!(page, "<figure class=\"run\">{}</figure>", over_time(run, host));
    }
    if let Some(note) = busiest(&runs) {
        let _ = writeln!(page, "<p>{note}</p>");
    }
    page.push_str("</section>\n");
}

fn heads(page: &mut String, columns: &[&Column]) {
    for column in columns {
        let _ = write!(page, "<th>{}</th>", column.head);
    }
}

fn cells(page: &mut String, arm: &Arm, columns: &[&Column]) {
    for column in columns {
        let _ = write!(page, "<td>{}</td>", escape(&column.cell(arm, false)));
    }
}

/// Who is better in both, by name; nobody, where others were run.
fn better(world: &World) -> String {
    let Some(plane) = &world.plane else { return "-".to_owned() };
    let names: Vec<String> =
        plane.standing(crate::report::Standing::BetterInBoth).map(|rival| escape(&rival.policy)).collect();
    if names.is_empty() { "nobody".to_owned() } else { format!("<strong>{}</strong>", names.join(", ")) }
}

const TITLE: &str = "Policies in virtual worlds";
const WHAT: &str = "\
Hosts with hidden limits, in virtual time; what is counted is what the hosts received. Made by <code>comity simulate</code>.";
const READING: &str = "\
<strong>from min 2</strong>, <strong>in all</strong>: served, as a share of the host’s capacity, from the second minute on \
and over the whole run. <strong>of possible</strong>: served from the second minute on, as a share of what the host could \
have served then, whatever was done in the first: one measure for all policies. <strong>refused</strong>: share of requests answered with 429 or 503. <strong>queue</strong>: requests of ours that \
waited at the host, on the mean. <strong>p95</strong>: of the time from start to first byte. <strong>fairness</strong>: the \
least served client over the most served one. <strong>list</strong>: what was got of a list, as a share of what could \
be had, times the least time the host’s capacity allows over the time it took. All are means over the seeds. In the pictures of runs, triangles above \
the plot are refusals, and the green line is the interval at which the host’s capacity is just used, which no policy is told.";

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--muted:#57606a;--faint:#d8dee4;--own:#0072b2;--wrong:#b34f00}\
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--muted:#9da7b1;--faint:#30363d;--own:#56b4e9;\
--wrong:#e69f00}}\
body{margin:2rem auto;max-width:1200px;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;background:var(--paper);\
color:var(--ink)}\
h1{font-size:1.6rem}h2{font-size:1.25rem;margin:0 0 .3rem;overflow-wrap:anywhere}\
section{border-top:1px solid var(--faint);margin-top:2rem;padding-top:1.2rem}\
a{color:var(--own)}\
table{border-collapse:collapse;font-size:.85rem;line-height:1.35;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .55rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--faint);font-weight:400}\
thead th{color:var(--muted)}\
th:first-child,.words{text-align:left}\
tr.ours th,tr.ours td{color:var(--own);font-weight:600}\
strong{font-weight:600}td strong{color:var(--wrong)}\
.wide{overflow-x:auto}.wide+.wide{margin-top:1.2rem}\
.beside{display:flex;flex-wrap:wrap;gap:1rem 1.5rem;align-items:flex-start}\
.beside figure{flex:0 1 500px}.beside .wide{flex:1 1 480px}\
figure{margin:0}figure.run{margin-top:1rem}\
svg{max-width:100%;height:auto}\
ul{color:var(--muted);font-size:.9rem;padding-left:1.2rem}\
footer{border-top:1px solid var(--faint);margin-top:2rem;color:var(--muted);font-size:.9rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{run, sampled as sampled_run, world};

    #[test]
    fn the_page_stands_alone_and_tells_of_every_world() {
        let runs = vec![sampled_run("adaptive"), run("<cubic>", 1, 1.0, 300)];
        let worlds = vec![
            world("bucket-10", "ten a second & more", None, runs),
            world("bucket-\"1", "one", None, vec![run("fixed", 1, 0.5, 0)]),
        ];
        let page = html(&Report { worlds });
        assert!(!page.contains("<script") && !page.contains("<cubic>") && !page.contains("src="));
        for part in ["ten a second &amp; more", "href=\"#bucket-10\"", "id=\"bucket-10\"", "bucket-&quot;1", "nobody"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg").count(), 2, "a plane and a run");
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
    }

    #[test]
    fn who_is_better_in_both_stands_out() {
        let worlds = vec![world("w", "", None, vec![run("adaptive", 1, 0.9, 6), run("oracle", 1, 1.0, 0)])];
        assert!(html(&Report { worlds }).contains("<strong>oracle</strong>"));
    }
}

//! Slots with generations: a name that was given up never means its slot's next tenant.

use super::Ticket;

#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> Ticket {
        match self.free.pop() {
            Some(slot) => {
                let (generation, place) = &mut self.slots[slot as usize];
                *generation = generation.wrapping_add(1);
                *place = Some(value);
                Ticket { slot, generation: *generation }
            }
            None => {
                self.slots.push((0, Some(value)));
                Ticket { slot: (self.slots.len() - 1) as u32, generation: 0 }
            }
        }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.slots.get(ticket.slot as usize).filter(|(generation, _)| *generation == ticket.generation)?.1.as_ref()
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.slots.get_mut(ticket.slot as usize).filter(|(generation, _)| *generation == ticket.generation)?.1.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            Some((Ticket { slot: slot as u32, generation: *generation }, value.as_ref()?))
        })
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        self.get(ticket)?;
        let value = self.slots.get_mut(ticket.slot as usize)?.1.take();
        self.free.push(ticket.slot);
        value
    }
}

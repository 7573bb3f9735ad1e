//! The shared store of one machine: a file of fixed records under the kernel's lock.

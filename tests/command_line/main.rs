//! The programs as a person starts them: `nearfar`, `bench`, and the one that measures on another machine.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod cli;
mod device_memory;
mod doctor;
mod hardware;
mod hostile;
mod inputs;
mod kills;
mod outputs;
mod program;
mod words;

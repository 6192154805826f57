//! The protocol between clients and the server, without the server: requests parsed from the words of commands, numbers
//! as text, names, the texts of errors, and how much a client sends in one command.

#![forbid(unsafe_code)]

pub mod batch;
pub mod bloom;
pub mod cms;
pub mod cuckoo;
pub mod error;
pub mod names;
pub mod numerals;
pub mod tdigest;
pub mod topk;
pub mod words;

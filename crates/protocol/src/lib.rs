//! What clients and the server say to each other, without the server: the words of commands as requests, numbers as
//! text, and the texts of errors.

#![forbid(unsafe_code)]

pub mod bloom;
pub mod cuckoo;
pub mod error;
pub mod numerals;
pub mod words;

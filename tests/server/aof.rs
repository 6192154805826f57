//! What a server has written to its AOF.

use std::fs;
use std::path::PathBuf;

use crate::harness::Server;

/// The commands that a server has written to its AOF.
pub struct Log {
    file: PathBuf,
    read: usize,
}

impl Log {
    pub fn of(server: &Server) -> Self {
        let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
        Self { file, read: 0 }
    }

    /// Those since the last call; the choice of the first database is left out.
    #[track_caller]
    pub fn since(&mut self) -> Vec<Vec<Vec<u8>>> {
        let bytes = fs::read(&self.file).expect("the server has an AOF");
        let mut rest = &bytes[self.read..];
        self.read = bytes.len();
        let mut commands = Vec::new();
        while !rest.is_empty() {
            let count = number(&mut rest, b'*');
            let command: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let length = number(&mut rest, b'$');
                    let (arg, behind) = rest.split_at(length);
                    rest = behind.strip_prefix(b"\r\n").expect("the end of a line");
                    arg.to_vec()
                })
                .collect();
            if command != [b"SELECT".to_vec(), b"0".to_vec()] {
                commands.push(command);
            }
        }
        commands
    }
}

fn number(rest: &mut &[u8], kind: u8) -> usize {
    let end = rest.windows(2).position(|window| window == b"\r\n");
    let (line, behind) = rest.split_at(end.expect("a whole line"));
    *rest = &behind[2..];
    assert_eq!(line[0], kind);
    let text = std::str::from_utf8(&line[1..]).expect("digits");
    text.parse().expect("a number")
}

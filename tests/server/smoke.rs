//! The harness itself, mostly on servers without the module.

use std::fs;

use crate::harness::{
    Reply, Server, Version, array, boolean, bulk, digest, double, error, int, map, nil, ok, simple,
    wait_in_sync, wait_until,
};

#[test]
fn replies_keep_their_shapes() {
    let server = Server::builder().without_module().start();
    let mut client = server.client();
    assert_eq!(client.cmd("PING"), simple("PONG"));
    assert_eq!(client.cmd("SET k v"), ok());
    assert_eq!(client.cmd("GET k"), bulk("v"));
    assert_eq!(client.cmd("GET missing"), nil());
    assert_eq!(client.cmd("BLPOP missing 0.01"), nil());
    assert_eq!(
        client.cmd("INCR k"),
        error("ERR value is not an integer or out of range")
    );
    assert_eq!(client.cmd("MGET k missing"), array([bulk("v"), nil()]));
    assert_eq!(client.cmd("HSET h a b"), int(1));
    assert_eq!(client.cmd("HGETALL h"), array([bulk("a"), bulk("b")]));

    let mut client = server.client3();
    assert_eq!(client.cmd("GET missing"), nil());
    assert_eq!(client.cmd("HGETALL h"), map([(bulk("a"), bulk("b"))]));
    assert_eq!(client.cmd("DEBUG PROTOCOL true"), boolean(true));
    assert_eq!(client.cmd("ZADD z INCR 1.5 m"), double(1.5));
    assert_eq!(
        client.cmd("DEBUG PROTOCOL set"),
        Reply::Set(vec![int(0), int(1), int(2)])
    );
    assert_eq!(
        client.cmd("DEBUG PROTOCOL verbatim").text(),
        "This is a verbatim\nstring"
    );
    assert!(client.cmd("NOSUCH").is_error());
}

#[test]
fn any_bytes_go_in_and_come_out() {
    let server = Server::builder().without_module().start();
    let mut client = server.client();
    let value: Vec<u8> = (0..=u8::MAX).chain(*b"\r\n").collect();
    assert_eq!(client.call(&[b"SET", b"", &value]), ok());
    assert_eq!(client.call(&[b"GET", b""]).as_bytes(), value);
    assert_eq!(client.cmd("STRLEN ").as_int(), 258);

    client.send_args(&[b"APPEND", b"", b"\0"]);
    client.send("MGET  none");
    assert_eq!(client.read(), int(259));
    assert_eq!(client.read().as_array()[1], nil());
}

#[test]
fn pushes_stand_apart_from_replies() {
    let server = Server::builder().without_module().start();
    let mut client = server.client3();
    assert_eq!(client.cmd("CLIENT TRACKING ON BCAST"), ok());
    assert_eq!(client.cmd("SET a 1"), ok());
    assert_eq!(client.cmd("PING"), simple("PONG"));
    assert_eq!(server.client().cmd("SET b 1"), ok());
    for key in ["a", "b"] {
        assert_eq!(
            client.read_push().as_array(),
            [bulk("invalidate"), array([bulk(key)])]
        );
    }
}

#[test]
fn data_outlives_the_process_as_the_settings_say() {
    let mut server = Server::builder()
        .without_module()
        .config("appendonly", "yes")
        .start();
    let first = server.pid();
    assert_eq!(server.client().cmd("SET k v"), ok());
    server.restart();
    assert_eq!(server.client().cmd("GET k"), bulk("v"));
    assert_ne!(server.pid(), first);

    let mut server = Server::builder().without_module().start();
    assert_eq!(server.client().cmd("SET k v"), ok());
    server.restart_saving();
    assert_eq!(server.client().cmd("GET k"), bulk("v"));
    assert_eq!(server.client().cmd("SET k w"), ok());
    server.kill();
    server.start_again();
    assert_eq!(server.client().cmd("GET k"), bulk("v"));
    assert_eq!(server.client().cmd("SET k w"), ok());
    server.restart();
    assert_eq!(server.client().cmd("GET k"), bulk("v"));
}

#[test]
fn a_server_may_refuse_to_start() {
    let refused = Server::builder()
        .without_module()
        .after_module("no-such-setting 1")
        .try_start();
    assert!(
        refused
            .err()
            .is_some_and(|log| log.contains("no-such-setting"))
    );

    let mut server = Server::builder().without_module().start();
    server.shutdown();
    fs::write(server.dir().join("dump.rdb"), "not an RDB").unwrap();
    assert!(
        server
            .try_start_again()
            .unwrap_err()
            .contains("Wrong signature")
    );
    assert!(
        server.log_contains("Ready to accept connections")
            && server.log_contains("Wrong signature")
    );
}

#[test]
fn settings_can_be_rewritten() {
    let mut server = Server::builder()
        .without_module()
        .before_module("maxmemory 100mb")
        .start();
    assert_eq!(
        server.client().cmd("CONFIG GET maxmemory"),
        array([bulk("maxmemory"), bulk("104857600")])
    );
    assert_eq!(server.client().cmd("CONFIG SET maxmemory 7"), ok());
    assert_eq!(server.client().cmd("CONFIG REWRITE"), ok());
    server.restart();
    assert_eq!(
        server.client().cmd("CONFIG GET maxmemory"),
        array([bulk("maxmemory"), bulk("7")])
    );
}

#[test]
fn a_replica_follows() {
    let primary = Server::builder().without_module().start();
    let mut replica = Server::replica_of(&primary).without_module().start();
    wait_in_sync(&primary, &replica);
    for i in 0..1000 {
        primary.client().cmd(&format!("SADD k {i}"));
    }
    wait_in_sync(&primary, &replica);
    let expected = digest(&mut primary.client(), "k");
    assert_eq!(digest(&mut replica.client(), "k"), expected);
    assert_ne!(digest(&mut replica.client(), "other"), expected);

    replica.restart();
    assert_eq!(primary.client().cmd("SADD k more"), int(1));
    wait_in_sync(&primary, &replica);
    assert_eq!(replica.client().cmd("SCARD k"), int(1001));
}

#[test]
fn the_server_says_what_it_is() {
    let server = Server::builder().without_module().start();
    let reported = std::process::Command::new(std::env::var_os("VALKEY_SERVER").unwrap())
        .arg("--version")
        .output();
    let reported = String::from_utf8(reported.unwrap().stdout).unwrap();
    let Version {
        valkey,
        major,
        minor,
    } = server.version();
    let name = if valkey { "Valkey" } else { "Redis" };
    assert!(
        reported.starts_with(&format!("{name} server v={major}.{minor}.")),
        "{reported}"
    );
    assert_eq!(server.has_jemalloc(), reported.contains("malloc=jemalloc"));
}

#[test]
fn a_popular_client_connects() {
    let server = Server::builder().without_module().start();
    let mut connection = server.redis_connection();
    let pong: String = redis::cmd("PING").query(&mut connection).unwrap();
    assert_eq!(pong, "PONG");
}

#[test]
fn the_process_ends_with_its_guard() {
    let server = Server::builder().without_module().start();
    let (port, folder) = (server.port(), server.dir().to_owned());
    drop(server);
    assert!(!folder.exists());
    wait_until("the port is free", || {
        std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
    });
}

#[test]
fn the_module_comes_with_its_server() {
    let mut server = Server::with(&[("appendonly", "yes")]);
    assert_eq!(server.client().cmd("BF.ADD k item"), int(1));
    server.restart();
    assert_eq!(server.client().cmd("BF.EXISTS k item"), int(1));

    let server = Server::builder()
        .before_module("bf.bloom-capacity 7")
        .module_args(&["bloom-expansion", "3"])
        .after_module("bf.bloom-fp-rate 0.25")
        .start();
    assert_eq!(server.client().cmd("BF.ADD k item"), int(1));
    for (field, value) in [
        ("CAPACITY", int(7)),
        ("EXPANSION", int(3)),
        ("ERROR", bulk("0.25")),
    ] {
        assert_eq!(
            server.client().cmd(&format!("BF.INFO k {field}")),
            array([value])
        );
    }
}

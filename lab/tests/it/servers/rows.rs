//! Every server answers every row that it has, on its CPUs, and is gone afterwards.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use scalws_lab::scenario::{Protocol, SCENARIOS};
use scalws_lab::servers::{Launch, Running, Started, backend, start};
use scalws_lab::{cpus, measure};

use super::ask::{check, check_tls};
use super::{Scratch, assert_gone, begin, first_cpu, has_nginx, scalws, server};

/// Every row of one server, or those of a list: right bytes, on its CPU, gone at the end; gives the rows that it has not.
fn every_row(text: &str, rows: &[&str]) -> Vec<(&'static str, String)> {
    let scratch = Scratch::new(text);
    let (fixture, cpus, server) = (scratch.fixture(), first_cpu(), server(text));
    let place = scratch.0.join("servers");
    let behind = if has_nginx() { Some(backend(&fixture, &cpus, &place).unwrap()) } else { None };
    let mut lacking = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| rows.is_empty() || rows.contains(&scenario.name)) {
        let backend = behind.as_ref().map(Running::address);
        let launch = Launch {
            server: &server,
            scenario,
            fixture: &fixture,
            cpus: &cpus,
            scalws: scalws(),
            scratch: &place,
            backend,
            variables: &[],
        };
        let mut one = match start(&launch) {
            Ok(Started::Running(one)) => one,
            Ok(Started::Lacks(reason)) => {
                lacking.push((scenario.name, reason));
                continue;
            }
            Err(refusal) if backend.is_none() && refusal.to_string().contains("address of a backend") => {
                eprintln!("NOT TRIED: {text} {}: nginx, the backend, is not installed", scenario.name);
                continue;
            }
            Err(refusal) => panic!("{text} {}: {refusal}", scenario.name),
        };
        let tree = measure::tree(one.pid());
        assert!(one.is_alive() && one.name() == text && !one.config().is_empty());
        assert_ne!(one.version(), "unknown", "{text}");
        assert_eq!(measure::stray_thread(one.pid(), &cpus), None);
        let group =
            rustix::process::getpgid(rustix::process::Pid::from_raw(one.pid().cast_signed())).unwrap();
        assert_eq!(group.as_raw_nonzero().get().cast_unsigned(), one.pid(), "Ctrl-C is for the lab alone");
        if scenario.protocol.is_tls() {
            let h2 = matches!(scenario.protocol, Protocol::H2(..));
            check_tls(
                &one,
                scenario,
                &fixture,
                &place.canonicalize().unwrap().join("tls/certificate.pem"),
                h2,
            );
        } else {
            check(&one, scenario, &fixture);
        }
        let address = one.address();
        drop(one);
        assert_gone(text, &tree);
        assert!(TcpStream::connect(address).is_err(), "{text} {}: somebody still answers", scenario.name);
    }
    lacking
}

fn names<'a>(lacking: &'a [(&'static str, String)], reason: &str) -> Vec<&'static str> {
    let of: fn(&'a (&'static str, String)) -> &'static str = |(name, _)| name;
    lacking.iter().filter(|(_, why)| why.contains(reason)).map(of).collect()
}

const TLS_ROWS: [&str; 7] = ["tls-1k", "tls-1m", "tls-full", "tls-resumed", "h2-64x1", "h2-8x32", "h2-16x4"];

#[test]
fn scalws_answers_every_row_that_it_has() {
    let lacking = every_row("scalws", &[]);
    assert_eq!(names(&lacking, "no TLS yet (milestone M6)"), TLS_ROWS);
    assert_eq!(names(&lacking, "no proxy yet (milestone M7)"), ["proxy-1k"]);
    assert_eq!(names(&lacking, "--docker"), ["image-layer", "docker-network"]);
    assert_eq!(lacking.len(), TLS_ROWS.len() + 3);
}

/// A server that may be absent; `lacks` are the rows that it never has.
fn stranger(text: &str, rows: &[&str], lacks: &[&str]) {
    let program = text.split('-').next().unwrap();
    let look = format!("PATH=$PATH:/usr/sbin command -v {program}");
    let is_there = Command::new("sh").args(["-c", &look]).stdout(Stdio::null()).status().unwrap().success();
    if !is_there {
        eprintln!("NOT TRIED: {text} is not installed (apt-get install {program})");
        let scratch = Scratch::new(&format!("{text}-absent"));
        let said = match begin(&scratch, &server(text), "static-1k") {
            Ok(Started::Lacks(reason)) => reason,
            Err(refusal) => refusal.to_string(),
            Ok(Started::Running(_)) => panic!("{text} runs and is not there"),
        };
        assert!(said.contains("apt-get install"), "{said}");
        return;
    }
    let lacking = every_row(text, rows);
    for (name, reason) in &lacking {
        if reason.contains("apt-get install") {
            eprintln!("NOT TRIED: {text} {name}: {reason}");
        } else {
            let is_for_containers = ["image-layer", "docker-network"].contains(name);
            assert!(lacks.contains(name) || is_for_containers, "{text} {name}: {reason}");
        }
    }
    for name in lacks {
        assert!(lacking.iter().any(|(lacked, _)| lacked == name), "{text} has {name} by now");
    }
}

#[test]
fn nginx_answers_every_row() {
    stranger("nginx", &[], &[]);
}

/// Where the variants of nginx differ from the usual one.
const VARIED: [&str; 5] = ["static-1k", "static-1m", "uncached", "not-found", "tls-1m"];

#[test]
fn nginx_without_its_cache_answers() {
    stranger("nginx-uncached", &VARIED, &[]);
}

#[test]
fn nginx_with_our_buffer_answers() {
    stranger("nginx-buffer", &VARIED, &[]);
}

#[test]
fn lighttpd_answers_its_rows() {
    stranger("lighttpd", &[], &["respond", "sidecar", "sidecar-miss"]);
}

#[test]
fn h2o_answers_its_rows() {
    stranger("h2o", &[], &[]);
}

#[test]
fn caddy_answers_its_rows() {
    stranger("caddy", &[], &[]);
}

#[test]
fn haproxy_answers_its_rows() {
    let has = ["respond", "not-found", "proxy-1k"];
    let lacks: Vec<&str> =
        SCENARIOS.iter().map(|scenario| scenario.name).filter(|name| !has.contains(name)).collect();
    stranger("haproxy", &[], &lacks);
}

/// As many workers as CPUs, on every side.
#[test]
fn workers_are_as_many_as_cpus() {
    let all = cpus::allowed(None).unwrap();
    if all.len() < 2 {
        eprintln!("NOT TRIED: several workers: there is but one CPU");
        return;
    }
    let scratch = Scratch::new("workers");
    let (fixture, scenario) = (scratch.fixture(), scalws_lab::scenario::find("not-found").unwrap());
    for text in ["scalws", "nginx", "lighttpd", "h2o", "caddy", "haproxy"] {
        let (server, place) = (server(text), scratch.0.join("servers"));
        let (cpus, scalws, backend) = (&all[..2], scalws(), None);
        let launch = Launch {
            server: &server,
            scenario,
            fixture: &fixture,
            cpus,
            scalws,
            scratch: &place,
            backend,
            variables: &[],
        };
        let one = match start(&launch) {
            Ok(Started::Running(one)) => one,
            Ok(Started::Lacks(why)) => {
                eprintln!("NOT TRIED: {why}");
                continue;
            }
            Err(refusal) if refusal.to_string().contains("apt-get install") => {
                eprintln!("NOT TRIED: {refusal}");
                continue;
            }
            Err(refusal) => panic!("{text}: {refusal}"),
        };
        check(&one, scenario, &fixture);
        let tree = measure::tree(one.pid());
        if matches!(text, "nginx" | "lighttpd") {
            assert_eq!(tree.len(), 3, "{text}: one that watches and two that work");
        }
        drop(one);
        assert_gone(text, &tree);
    }
}

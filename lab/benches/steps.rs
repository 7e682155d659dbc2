//! The steps of a request, one by one: path, head, conditions and ranges, site matching, and the whole
//! engine in memory. Times are for a look; what is compared between commits are instructions.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use scalws::config::checked::{Handler, PathMatch, Redirect, Route};
use scalws::fs::{Links, Root, View};
use scalws::offload::Offload;
use scalws::route::Table;
use scalws::semantics::conditional::{Conditions, Validators, evaluate};
use scalws::semantics::method::Method;
use scalws::semantics::path::SafePath;
use scalws::semantics::range;
use scalws_lab::fixture::Fixture;
use scalws_lab::inproc::{OneFile, PING, REQUEST, RESPOND, serve, site};

fn scratch() -> PathBuf {
    let scratch = std::env::temp_dir().join(format!("scalws-steps-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a temporary directory");
    scratch
}

fn paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("path");
    for (name, path) in [
        ("shallow", "/index.html"),
        ("deep", "/a/b/c/d/e/f/g/h/i/j/k/l/index.html"),
        ("encoded", "/a%20b/%c3%a4/c%2bd.html"),
        ("traversal", "/a/b/../../../../etc/passwd"),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| SafePath::parse(black_box(path.as_bytes())).is_ok())
        });
    }
    group.finish();
}

fn resolution(criterion: &mut Criterion) {
    let scratch = scratch();
    let fixture = Fixture::lay_out(&scratch).expect("a fixture");
    std::fs::create_dir_all(scratch.join("a/b/c/d/e/f")).expect("directories");
    std::fs::write(scratch.join("a/b/c/d/e/f/x"), "x").expect("a file");
    let pool = Offload::start(1, 16).expect("a pool");
    let view = View::new(&Root::open(fixture.root(), Links::Inside, pool).expect("a root"));
    let mut group = criterion.benchmark_group("resolve");
    for (name, path) in
        [("shallow", "1k.bin"), ("deep", "a/b/c/d/e/f/x"), ("miss", "none"), ("escape", "../x")]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| drop(view.open(black_box(path.as_bytes()), &[])))
        });
    }
    group.finish();
    let _ = std::fs::remove_dir_all(scratch);
}

fn decisions(criterion: &mut Criterion) {
    let tag: &[u8] = b"\"400-6553f100-0\"";
    let validators =
        Validators { tag: Some("\"400-6553f100-0\""), modified_s: Some(1_700_000_000), now_s: 1_700_000_100 };
    let lists = [tag];
    let conditions = Conditions { if_none_match: &lists, ..Conditions::default() };
    criterion.bench_function("if-none-match", |bencher| {
        bencher.iter(|| evaluate(black_box(&conditions), black_box(&validators)))
    });
    criterion.bench_function("range", |bencher| {
        bencher.iter(|| range::parse(black_box(b"bytes=500-999"), black_box(100_000)))
    });
}

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("site");
    for count in [1_usize, 50, 10_000] {
        let routes: Vec<Route> = (0..count).map(route).collect();
        let table = Table::new(routes.iter().zip(0..count));
        let path = SafePath::parse(b"/route-0/deeper/page.html").expect("a path");
        group.bench_function(format!("{count} routes"), |bencher| {
            bencher.iter(|| table.find(black_box(b"www.example.com"), black_box(&path), Method::Get))
        });
    }
    group.finish();
}

fn route(number: usize) -> Route {
    Route {
        name: String::new(),
        hosts: Vec::new(),
        path: PathMatch::Prefix(format!("route-{number}").into_bytes()),
        methods: None,
        headers: Vec::new(),
        cors: None,
        handler: Handler::Redirect(Redirect { to: "/".to_owned(), status: 308 }),
    }
}

fn engine(criterion: &mut Criterion) {
    const BATCH: usize = 1_000;
    let scratch = scratch();
    let fixture = Fixture::lay_out(&scratch).expect("a fixture");
    let mut group = criterion.benchmark_group("engine, 1,000 requests");
    group.bench_function("respond", |bencher| {
        bencher.iter(|| serve(Box::new(site(RESPOND, &scratch).expect("a site")), PING, BATCH))
    });
    group.bench_function("file of 1 KiB", |bencher| {
        let file = fixture.root().join("1k.bin");
        bencher.iter(|| serve(Box::new(OneFile::new(&file).expect("a service")), REQUEST, BATCH))
    });
    group.finish();
    let _ = std::fs::remove_dir_all(scratch);
}

criterion_group!(benches, paths, resolution, decisions, matching, engine);
criterion_main!(benches);

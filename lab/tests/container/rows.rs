//! What is measured in containers, and what shows `-`.

use super::support::{Bench, is_clean, is_skipped, text};

#[test]
fn plain_rows_layers_and_networks_have_their_numbers() {
    if is_skipped() {
        return;
    }
    let bench = Bench::new();
    let rows = ["respond", "sidecar", "access-log", "image-layer", "docker-network", "tls-1k", "proxy-1k"];
    let options = ["--no-build", "--rounds", "3", "--servers", "scalws,nginx,caddy"];
    let lab = bench.command(&[&options[..], &rows[..]].concat()).spawn().unwrap();
    let number = lab.id();
    let output = lab.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let results = bench.results();
    assert!(results.conditions.is_docker);
    let case = |name: &str| results.cases.iter().find(|case| case.scenario == name).unwrap();
    for name in ["respond", "sidecar", "access-log", "image-layer"] {
        for server in ["scalws", "nginx"] {
            let row = case(name).row(server).unwrap();
            assert_eq!(row.windows.len(), 3, "{name}, {server}: {said}");
            assert!(row.windows.iter().all(|window| window.requests > 0 && window.pss_bytes > Some(0)));
            assert!(row.version.contains(", image sha256:"), "{}", row.version);
            let files = if name == "image-layer" {
                "files: in a layer of the image, on "
            } else {
                "files: mounted, on "
            };
            assert!(row.features.contains(files), "{name}, {server}: {}", row.features);
        }
        let caddy = case(name).row("caddy").unwrap();
        assert_eq!(caddy.lacks.as_deref(), Some("the lab's image has no caddy: leave --docker out"));
        assert!(case(name).row("scalws").unwrap().ratio_to(case(name).row("nginx").unwrap()).is_some());
    }
    network(case("docker-network"));
    for name in ["tls-1k", "proxy-1k"] {
        assert!(case(name).rows.iter().all(|row| row.lacks.is_some()), "{name}");
    }
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("- Place: a container for each server"), "{page}");
    assert!(page.contains("| scalws, published port | "), "{page}");
    let here = std::env::current_dir().unwrap();
    assert!(!page.contains(".local/lab/scratch") && !page.contains(here.parent().unwrap().to_str().unwrap()));
    is_clean(number, &[], &[]);
}

/// One server by three ways, divided by its own network.
fn network(case: &scalws_lab::bench::record::Case) {
    assert_eq!(case.references, ["scalws"]);
    let own = case.row("scalws").unwrap();
    for name in ["scalws, bridge", "scalws, published port"] {
        let row = case.row(name).unwrap();
        assert_eq!(row.windows.len(), 3, "{name}");
        assert!(row.ratio_to(own).is_some(), "{name}");
        assert!(row.features.contains("; asked "), "{}", row.features);
    }
    assert!(case.row("nginx").unwrap().lacks.is_some());
}

//! The manifests of `deploy/kubernetes`, rendered, and the checks themselves.
//!
//! `scripts/check.sh kubernetes` renders them with kubectl, lets kubernetes-validate look at the types,
//! and names the directory of the results in `SCALWS_MANIFESTS`. Without it only the checks are
//! tested: each mistake that they are for is put into a sound set and has to be found.

mod checks;
mod quantity;
mod volume;

use std::path::Path;

use serde_json::{Value, json};

use checks::offences;

/// Reads what the gate rendered; `None` where it did not.
fn rendered(name: &str) -> Option<Vec<Value>> {
    let Some(directory) = std::env::var_os("SCALWS_MANIFESTS") else {
        eprintln!("SKIPPED: nothing is rendered; scripts/check.sh kubernetes does, and runs this test");
        return None;
    };
    let path = Path::new(&directory).join(name).with_extension("json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_str(&text).unwrap())
}

#[track_caller]
fn passes(objects: &[Value]) {
    let offences = offences(objects);
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn the_base_is_sound() {
    let Some(objects) = rendered("base") else { return };
    passes(&objects);
    assert!(of_kind(&objects, "ConfigMap").is_empty(), "the base serves what is in the image");
    let deployment = of_kind(&objects, "Deployment")[0];
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, concat!("scalws:", env!("CARGO_PKG_VERSION")), "the tag is this version");
}

#[test]
fn the_overlay_of_config_maps_is_sound() {
    let Some(objects) = rendered("configmap") else { return };
    passes(&objects);
    let maps = of_kind(&objects, "ConfigMap");
    let map = |begin: &str| {
        let found = maps.iter().find(|map| map["metadata"]["name"].as_str().unwrap().starts_with(begin));
        found.unwrap_or_else(|| panic!("no ConfigMap {begin}"))
    };
    assert!(map("scalws-config-")["data"]["scalws.toml"].is_string(), "a hash in the name: a rollout");
    let site = map("scalws-site");
    assert_eq!(site["metadata"]["name"], "scalws-site", "no hash in the name: pods see the change");
    // A file that the overlay forgot would be a 404.
    let house = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(house.join("deploy/kubernetes/overlays/configmap/site")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            site["data"][&name].is_string() || site["binaryData"][&name].is_string(),
            "{name} is missing"
        );
    }
    let deployment = of_kind(&objects, "Deployment")[0];
    let mounts = &deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"];
    let places = mounts.as_array().unwrap().iter().map(|mount| mount["mountPath"].as_str().unwrap());
    assert_eq!(places.collect::<Vec<_>>(), ["/etc/scalws", "/srv"]);
}

/// A sound set, as short as it can be.
fn sound() -> Vec<Value> {
    let labels = json!({ "app": "web" });
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "admin" } });
    let container = json!({
        "name": "scalws",
        "image": "scalws:0.1.0",
        "env": [
            { "name": "SCALWS_SERVER__ADMIN", "value": "0.0.0.0:8081" },
            { "name": "SCALWS_SERVER__DRAIN__DELAY", "value": "5s" },
            { "name": "SCALWS_SERVER__DRAIN__TIMEOUT", "value": "20s" },
        ],
        "ports": [{ "name": "http", "containerPort": 8080 }, { "name": "admin", "containerPort": 8081 }],
        "startupProbe": probe("/livez"),
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": { "cpu": "100m", "memory": "64Mi" },
            "limits": { "cpu": 1, "memory": "512Mi" },
        },
        "volumeMounts": [{ "name": "site", "mountPath": "/srv", "readOnly": true }],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    let pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "topologySpreadConstraints": [{ "labelSelector": { "matchLabels": labels } }],
        "containers": [container],
        "volumes": [{ "name": "site", "configMap": { "name": "site" } }],
    });
    vec![
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" }, "spec": {
            "selector": labels, "ports": [{ "port": 80, "targetPort": "http" }],
        } }),
        json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } } }),
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "site" } }),
    ]
}

#[test]
fn a_sound_set_passes() {
    passes(&sound());
}

/// Puts one value into a sound set and looks for one line about it.
#[track_caller]
fn finds(object: usize, place: &str, value: Value, line: &str) {
    let mut objects = sound();
    let place =
        place.replace("POD", "/spec/template/spec").replace("BOX", "/spec/template/spec/containers/0");
    *objects[object].pointer_mut(&place).unwrap_or_else(|| panic!("no {place}")) = value;
    let found = offences(&objects);
    assert!(found.iter().any(|one| one.contains(line)), "{place}: nothing says {line:?}: {found:#?}");
}

#[test]
fn names_that_do_not_meet_are_found() {
    finds(0, "/spec/selector/matchLabels/app", json!("wbe"), "does not meet the labels of its own pods");
    finds(0, "/spec/template/metadata/labels/app", json!("wbe"), "selects no pod");
    finds(1, "/spec/selector/app", json!("wbe"), "selects no pod");
    finds(1, "/spec/selector", json!({}), "selects no pod");
    finds(2, "/spec/selector/matchLabels/app", json!("wbe"), "selects no pod");
    finds(
        0,
        "POD/topologySpreadConstraints/0/labelSelector/matchLabels/app",
        json!("x"),
        "counts other pods",
    );
    finds(0, "POD/volumes/0/configMap/name", json!("site2"), "wants ConfigMap");
    finds(0, "BOX/volumeMounts/0/name", json!("siet"), "is no volume");
    finds(0, "POD/volumes/0/name", json!("siet"), "nothing mounts volume");
    finds(3, "/metadata/name", json!("Site"), "no DNS label");
    finds(3, "/kind", json!("Service"), "Service site: spec.selector");
}

#[test]
fn versions_that_nobody_serves_are_found() {
    finds(0, "/apiVersion", json!("apps/v1beta1"), "not apps/v1");
    finds(2, "/apiVersion", json!("policy/v1beta1"), "not policy/v1");
    finds(2, "/kind", json!("PodDisruptionBudgets"), "a kind that this check does not know");
}

#[test]
fn ports_that_nobody_listens_on_are_found() {
    finds(0, "BOX/livenessProbe/httpGet/port", json!("http"), "livenessProbe asks port 8080");
    finds(0, "BOX/livenessProbe/httpGet/port", json!(8082), "which is none");
    finds(0, "BOX/readinessProbe/httpGet/port", json!("amdin"), "which is none");
    finds(0, "BOX/readinessProbe/httpGet/path", json!("/livez"), "readinessProbe asks for");
    finds(0, "BOX/startupProbe", json!(null), "startupProbe asks");
    finds(0, "BOX/ports/1/containerPort", json!(8082), "the admin port is");
    finds(0, "BOX/env/0/value", json!("127.0.0.1:8081"), "which no kubelet reaches");
    finds(0, "BOX/ports/1/name", json!("http"), "no name of its own");
    finds(1, "/spec/ports/0/targetPort", json!("web"), "is no container's port");
    finds(1, "/spec/ports/0/targetPort", json!("admin"), "where no site is served");
}

#[test]
fn amounts_that_cannot_be_are_found() {
    finds(0, "BOX/resources/limits/memory", json!("512MB"), "is no quantity");
    finds(0, "BOX/resources/limits/memory", json!("512m"), "less than a megabyte");
    finds(0, "BOX/resources/requests/memory", json!("1Gi"), "of at most");
    finds(0, "BOX/resources/requests/cpu", json!("100M"), "of at most");
    finds(0, "BOX/resources/limits", json!(null), "is no quantity");
    finds(0, "POD/terminationGracePeriodSeconds", json!(25), "killed after 25 s");
    finds(0, "BOX/env/1/value", json!("5"), "drain None");
}

#[test]
fn rights_that_are_not_taken_away_are_found() {
    finds(0, "POD/securityContext/runAsUser", json!(0), "/securityContext/runAsUser is 0");
    finds(0, "POD/securityContext/seccompProfile/type", json!("Unconfined"), "seccompProfile");
    finds(0, "POD/enableServiceLinks", json!(true), "/enableServiceLinks is true");
    finds(0, "POD/automountServiceAccountToken", json!(null), "/automountServiceAccountToken is null");
    finds(
        0,
        "BOX/securityContext/capabilities",
        json!({ "drop": ["ALL"], "add": ["SYS_ADMIN"] }),
        "SYS_ADMIN",
    );
    finds(0, "BOX/securityContext/readOnlyRootFilesystem", json!(false), "readOnlyRootFilesystem is false");
    finds(0, "BOX/volumeMounts/0/readOnly", json!(false), "for writing");
    finds(0, "BOX/volumeMounts/0", json!({ "name": "site", "readOnly": true, "subPath": "x" }), "by subPath");
}

#[test]
fn images_that_move_are_found() {
    let digest = format!("registry.example:5000/a/scalws@sha256:{}", "0a".repeat(32));
    for sound in ["scalws:0.1.0", "registry.example:5000/a/scalws:1", &digest] {
        let mut objects = self::sound();
        objects[0]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(sound);
        passes(&objects);
    }
    for bad in
        ["", "scalws", "scalws:", "scalws:latest", "host:5000/scalws", "Scalws:1", "a b:1", "a@sha256:0"]
    {
        finds(0, "BOX/image", json!(bad), "with a tag of its own or a digest");
    }
}

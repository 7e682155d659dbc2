//! Who sends the spans: service, container and Kubernetes, as the environment has them.

use std::collections::BTreeMap;

use crate::config::checked::Traces;
use crate::telemetry::identity::{Ids, push_hexadecimal};

/// What the process can know about where it runs.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The text of proc_pid_mountinfo(5), which names the container.
    pub mounts: String,
}

/// Those of this process.
#[must_use]
pub fn of_process() -> Surroundings {
    let environment = std::env::vars_os();
    let environment =
        environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Surroundings { environment: environment.collect(), mounts }
}

/// Names of variables that a pod gets from the downward API, by custom, with their attributes.
const DOWNWARD: &[(&str, &[&str])] = &[
    ("k8s.pod.name", &["K8S_POD_NAME", "POD_NAME"]),
    ("k8s.pod.uid", &["K8S_POD_UID", "POD_UID"]),
    ("k8s.namespace.name", &["K8S_NAMESPACE_NAME", "POD_NAMESPACE"]),
    ("k8s.node.name", &["K8S_NODE_NAME", "NODE_NAME"]),
    ("k8s.container.name", &["K8S_CONTAINER_NAME", "CONTAINER_NAME"]),
];

/// The attributes of the resource; what OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say wins.
pub(super) fn attributes(traces: &Traces, surroundings: &Surroundings) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut set = |name: &str, value: &str| drop(found.insert(name.to_owned(), value.to_owned()));
    let variable = |name: &str| surroundings.environment.get(name).filter(|value| !value.is_empty());
    set("service.name", "scalws");
    set("service.version", env!("CARGO_PKG_VERSION"));
    let mut instance = Vec::new();
    push_hexadecimal(&mut instance, Ids::default().trace(), 32);
    set("service.instance.id", &String::from_utf8_lossy(&instance));
    set("telemetry.sdk.name", "scalws");
    set("telemetry.sdk.language", "rust");
    set("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    set("process.pid", &std::process::id().to_string());
    if let Some(host) = variable("HOSTNAME") {
        set("host.name", host);
        // What a pod is called is what its host is called, unless it says otherwise.
        if variable("KUBERNETES_SERVICE_HOST").is_some() {
            set("k8s.pod.name", host);
        }
    }
    for (name, variables) in DOWNWARD {
        if let Some(value) = variables.iter().find_map(|name| variable(name)) {
            set(name, value);
        }
    }
    if let Some(id) = container_id(&surroundings.mounts) {
        set("container.id", id);
    }
    for (name, value) in &traces.resource {
        set(name, value);
    }
    if let Some(service) = &traces.service {
        set("service.name", service);
    }
    found
}

/// The 64 digits by which Docker, containerd and CRI-O know the container: they stand in the sources of
/// the files that each container gets, such as /etc/hostname.
fn container_id(mounts: &str) -> Option<&str> {
    const FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        root.split('/').find(is_id).filter(|_| FILES.contains(&point))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::checked::{Protocol, Sampler};

    fn traces(service: Option<&str>, resource: &[(&str, &str)]) -> Traces {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Traces {
            is_compressed: false,
            protocol: Protocol::Grpc,
            endpoint: String::new(),
            headers: Vec::new(),
            timeout: std::time::Duration::ZERO,
            sampler: Sampler { is_parent_based: true, ratio: 1.0 },
            slow: None,
            errors: true,
            service: service.map(str::to_owned),
            resource: resource.iter().map(pair).collect(),
            queue_max: 1,
            batch_max: 1,
            delay: std::time::Duration::ZERO,
        }
    }

    #[test]
    fn what_the_environment_says_is_in_it_and_the_standard_variables_win() {
        let id = "0123456789abcdef".repeat(4);
        let mounts = format!(
            "1 0 8:1 / / rw - overlay o rw\n2 1 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4 /dev/a rw\n"
        );
        let environment = [
            ("HOSTNAME", "web-7"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("POD_NAMESPACE", "shop"),
            ("NODE_NAME", ""),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = attributes(
            &traces(None, &[("a", "b"), ("service.name", "c")]),
            &Surroundings { environment, mounts },
        );
        let value = |name: &str| found.get(name).map(String::as_str);
        assert_eq!((value("service.name"), value("a")), (Some("c"), Some("b")));
        assert_eq!((value("k8s.pod.name"), value("host.name")), (Some("web-7"), Some("web-7")));
        assert_eq!((value("k8s.namespace.name"), value("k8s.node.name")), (Some("shop"), None));
        assert_eq!(value("container.id"), Some(id.as_str()));
        let other = attributes(&traces(Some("d"), &[("service.name", "c")]), &Surroundings::default());
        assert_eq!(other["service.name"], "d");
        assert!(!other.contains_key("container.id") && !other.contains_key("k8s.pod.name"));
        assert_ne!(other["service.instance.id"], found["service.instance.id"]);
    }
}

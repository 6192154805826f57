//! Values of the official chart, and an object of the official operator. Neither the chart nor the operator is here:
//! their keys are those listed below, and what they pass on to Kubernetes is held against its schemas.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{MODULE, files, has_this_version, root};
use crate::harness::{Builder, Server, folder, given, int, kubernetes_validate};

/// The keys of version 1.0 of the chart that the examples may use. A star stands for any name.
const CHART: [&str; 18] = [
    "auth.aclUsers.*.passwordKey",
    "auth.aclUsers.*.permissions",
    "auth.enabled",
    "auth.usersExistingSecret",
    "extraConfig",
    "extraInitContainers",
    "extraVolumeMounts",
    "extraVolumes",
    "persistence.enabled",
    "persistence.size",
    "replica.enabled",
    "replica.replicas",
    "resources.limits.memory",
    "resources.requests.cpu",
    "resources.requests.memory",
    "sentinel.enabled",
    "sentinel.existingSecret",
    "sentinel.monitorUser",
];

/// The folders of the server's container at or below which the chart mounts nothing of others.
const FOLDERS: [&str; 8] = [
    "/data",
    "/valkey-conf",
    "/scripts",
    "/sentinel-scripts",
    "/sentinel-auth",
    "/tls",
    "/valkey-users-secret",
    "/valkey-auth-secret",
];

/// Returns whether a path is one of the chart's.
fn is_of(path: &str, key: &str) -> bool {
    let (path, key): (Vec<_>, Vec<_>) = (path.split('.').collect(), key.split('.').collect());
    let mut parts = path.iter().zip(&key);
    path.len() == key.len() && parts.all(|(part, own)| part == own || *own == "*")
}

#[track_caller]
fn read(name: &str) -> Value {
    let path = root().join("examples/kubernetes").join(name);
    let text = fs::read_to_string(path).expect("a file");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the paths of the values that are not maps, such as `replica.enabled`, with the values.
fn leaves(prefix: &str, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(map) => {
            let leaves = map.iter().flat_map(|(name, value)| {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaves(&format!("{prefix}{dot}{name}"), value)
            });
            leaves.collect()
        }
        _ => vec![(prefix.to_owned(), value.clone())],
    }
}

/// Returns the pod that the chart makes of values, as far as they determine it. Panics at an unknown key.
#[track_caller]
fn pod(values: &Value) -> Value {
    for (path, value) in leaves("", values) {
        assert!(CHART.iter().any(|key| is_of(&path, key)), "{path}");
        assert!(!path.ends_with(".enabled") || value == true, "{path}");
        let is_size = value.as_str().is_some_and(|size| size.ends_with("Gi"));
        assert!(path != "persistence.size" || is_size, "{path}");
        if path.ends_with(".permissions") {
            permits(value.as_str().expect("a text"));
        }
    }
    let [mounts, volumes, containers] =
        ["extraVolumeMounts", "extraVolumes", "extraInitContainers"]
            .map(|name| values.get(name).cloned().unwrap_or_else(|| json!([])));
    for mount in mounts.as_array().expect("mounts") {
        let place = Path::new(mount["mountPath"].as_str().expect("a path"));
        let is_taken = FOLDERS.iter().any(|folder| place.starts_with(folder));
        assert!(!is_taken, "{}", place.display());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "valkey"},
        "spec": {
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "volumes": volumes,
            "initContainers": containers,
            "containers": [{
                "name": "valkey",
                "image": "valkey/valkey",
                "securityContext": {"readOnlyRootFilesystem": true},
                "volumeMounts": mounts,
                "resources": values.get("resources").cloned().unwrap_or_else(|| json!({})),
            }],
        },
    })
}

/// Holds an object against the schemas of a version of Kubernetes, in which unknown fields are errors.
fn check(object: &Value, version: &str) -> Result<(), String> {
    let folder = folder();
    let path = folder.path().join("object.json");
    fs::write(&path, object.to_string()).expect("the folder can be written to");
    let mut command = Command::new(kubernetes_validate());
    command.args(["--strict", "--kubernetes-version", version]);
    let output = command.arg(path).output();
    let output = output.expect("kubernetes-validate is installed");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(text)
    }
}

/// Requires that a server takes a user with these permissions, who may log in.
#[track_caller]
fn permits(permissions: &str) {
    let server = Server::builder()
        .before_module(&format!("user of-the-chart on >secret {permissions}\n"))
        .start();
    let mut client = server.client();
    client.ok("AUTH of-the-chart secret");
}

/// Returns a server whose configuration is the given text, with the module from where it is here.
fn configured(text: &str, path: &str) -> Builder {
    let module = given("VALKEYBLOOM_SO");
    let text = text.replace(path, module.to_str().expect("a path in Unicode"));
    Server::builder().without_module().before_module(&text)
}

#[track_caller]
fn has_the_module(server: &Server) {
    let mut client = server.client();
    client.expect("BF.ADD seen item", int(1));
    client.expect("BF.EXISTS seen item", int(1));
}

/// Requires that the server loads the module from a volume, and returns the volume. Starts a server so.
#[track_caller]
fn volume_of_the_module(values: &Value) -> Value {
    let mount = &values["extraVolumeMounts"][0];
    let folder = mount["mountPath"].as_str().expect("a path");
    let text = values["extraConfig"].as_str().expect("a text");
    assert!(!text.contains("{{"), "the chart makes a template of it");
    let path = format!("{folder}/valkeybloom.so");
    assert!(text.contains(&format!("loadmodule {path}\n")), "{text}");
    has_the_module(&configured(text, &path).start());
    let volumes = values["extraVolumes"].as_array().expect("volumes");
    let mut volumes = volumes.iter().filter(|own| own["name"] == mount["name"]);
    volumes.next().expect("the mounted volume").clone()
}

#[test]
fn every_file_is_tested() {
    let files = files("kubernetes");
    let names = files.iter().map(|path| path.file_name().expect("a name"));
    let expected = [
        "valkeycluster.yaml",
        "values-image-volume.yaml",
        "values-init-container.yaml",
        "values-sentinel.yaml",
    ];
    assert!(names.eq(expected));
}

#[test]
fn the_module_comes_by_an_image_volume() {
    let values = read("values-image-volume.yaml");
    let pod = pod(&values);
    for version in ["1.31", "1.37"] {
        assert_eq!(check(&pod, version), Ok(()));
    }
    let error = check(&pod, "1.30").expect_err("image volumes are newer");
    assert!(error.contains("'image' was unexpected"), "{error}");
    let volume = volume_of_the_module(&values);
    has_this_version(volume["image"]["reference"].as_str().expect("an image"));
}

#[test]
fn the_module_comes_by_an_init_container() {
    let values = read("values-init-container.yaml");
    let mut pod = pod(&values);
    for version in ["1.25", "1.37"] {
        assert_eq!(check(&pod, version), Ok(()));
    }
    let volume = volume_of_the_module(&values);
    let container = &values["extraInitContainers"][0];
    has_this_version(container["image"].as_str().expect("an image"));
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    let folder = mount["mountPath"].as_str().expect("a path");
    assert_eq!(
        container["command"],
        json!(["cp", MODULE, format!("{folder}/")])
    );

    pod["spec"]["initContainers"][0]["comand"] = json!([]);
    let error = check(&pod, "1.37").expect_err("there is no such field");
    assert!(error.contains("'comand' was unexpected"), "{error}");
}

#[test]
fn replicas_and_sentinels_are_switched_on() {
    let values = read("values-sentinel.yaml");
    assert_eq!(check(&pod(&values), "1.37"), Ok(()));
    for switch in ["replica", "sentinel"] {
        assert_eq!(values[switch]["enabled"], true);
    }
    // Sentinels choose from them.
    assert!(values["replica"]["replicas"].as_u64() >= Some(2));
    // The chart requires that its users have the one who watches the servers.
    let monitor = values["sentinel"]["monitorUser"].as_str().expect("a name");
    assert!(values["auth"]["aclUsers"][monitor].is_object());
    // It is used with one of the others, which has the rest of what the chart requires.
    for other in ["values-image-volume.yaml", "values-init-container.yaml"] {
        let other = read(other);
        assert_eq!(other["auth"]["enabled"], true);
        assert_eq!(other["persistence"]["enabled"], true);
        assert!(other["auth"]["aclUsers"]["default"].is_object());
    }
}

#[test]
fn the_operators_server_loads_the_module() {
    let object = read("valkeycluster.yaml");
    assert_eq!(object["apiVersion"], "valkey.io/v1alpha1");
    assert_eq!(object["kind"], "ValkeyCluster");
    let known = [
        "apiVersion",
        "kind",
        "metadata.name",
        "spec.config.appendonly",
        "spec.config.maxmemory",
        "spec.containers",
        "spec.persistence.size",
        "spec.replicas",
        "spec.resources.limits.memory",
        "spec.resources.requests.cpu",
        "spec.resources.requests.memory",
        "spec.shards",
    ];
    let mut keys: Vec<String> = leaves("", &object)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    keys.sort();
    assert_eq!(keys, known);
    let spec = &object["spec"];
    assert!(spec["shards"].as_u64().is_some_and(|shards| shards >= 1));

    // The operator merges these fields into its own container.
    let containers = &spec["containers"];
    assert_eq!(containers[0]["name"], "server");
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": object["metadata"],
        "spec": {"containers": containers},
    });
    pod["spec"]["containers"][0]["resources"] = spec["resources"].clone();
    assert_eq!(check(&pod, "1.37"), Ok(()));

    let args = containers[0]["args"].as_array().expect("arguments");
    let module = given("VALKEYBLOOM_SO");
    let module = module.to_str().expect("a path in Unicode");
    let args = args.iter().map(|arg| arg.as_str().expect("a text"));
    let settings = spec["config"].as_object().expect("settings").iter();
    let server = settings.fold(
        Server::builder().without_module(),
        |server, (name, value)| server.config(name, value.as_str().expect("a text")),
    );
    let server = args.fold(server, |server, arg| {
        server.flag(&arg.replace(MODULE, module))
    });
    has_the_module(&server.start());
}

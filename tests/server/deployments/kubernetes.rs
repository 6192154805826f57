//! Values of the official chart, and an object of the official operator. Neither the chart nor the operator is here:
//! their keys are those listed below, and what they pass on to Kubernetes is held against its schemas.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{MODULE, files, has_this_version, root};
use crate::harness::{Builder, Server, folder, given, int, kubernetes_validate};

/// The keys of the chart that the examples may use, which are documented, each with what it holds.
const CHART: [(&str, Holds); 6] = [
    ("extraInitContainers", Holds::Pod("initContainers")),
    ("extraVolumeMounts", Holds::Mounts),
    ("extraVolumes", Holds::Pod("volumes")),
    ("replica.enabled", Holds::True),
    ("replica.sentinel.enabled", Holds::True),
    ("valkeyConfig", Holds::Configuration),
];

#[derive(Clone, Copy)]
enum Holds {
    /// A field of a pod's specification.
    Pod(&'static str),
    /// Mounts of the server's container.
    Mounts,
    Configuration,
    True,
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
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "valkey"},
        "spec": {
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "containers": [{
                "name": "valkey",
                "image": "valkey/valkey",
                "securityContext": {"readOnlyRootFilesystem": true},
            }],
        },
    });
    let spec = &mut pod["spec"];
    for (path, value) in leaves("", values) {
        let known = CHART.iter().find(|(name, _)| *name == path);
        match known.unwrap_or_else(|| panic!("{path} is unknown")).1 {
            Holds::Pod(field) => spec[field] = value,
            Holds::Mounts => spec["containers"][0]["volumeMounts"] = value,
            Holds::Configuration => assert!(value.is_string(), "{path}"),
            Holds::True => assert_eq!(value, true, "{path}"),
        }
    }
    pod
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
    let text = values["valkeyConfig"].as_str().expect("a text");
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
    let switches = leaves("", &values);
    let names: Vec<&str> = switches.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["replica.enabled", "replica.sentinel.enabled"]);
}

#[test]
fn the_operators_server_loads_the_module() {
    let object = read("valkeycluster.yaml");
    assert_eq!(object["apiVersion"], "valkey.io/v1alpha1");
    assert_eq!(object["kind"], "ValkeyCluster");
    let known = ["apiVersion", "kind", "metadata.name", "spec.containers"];
    let keys: Vec<String> = leaves("", &object)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, known);

    // The operator merges these fields into its own container.
    let containers = &object["spec"]["containers"];
    assert_eq!(containers[0]["name"], "server");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": object["metadata"],
        "spec": {"containers": containers},
    });
    assert_eq!(check(&pod, "1.37"), Ok(()));

    let args = containers[0]["args"].as_array().expect("arguments");
    let module = given("VALKEYBLOOM_SO");
    let module = module.to_str().expect("a path in Unicode");
    let args = args.iter().map(|arg| arg.as_str().expect("a text"));
    let server = args.fold(Server::builder().without_module(), |server, arg| {
        server.flag(&arg.replace(MODULE, module))
    });
    has_the_module(&server.start());
}

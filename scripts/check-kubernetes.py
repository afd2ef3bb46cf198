#!/usr/bin/env python3
"""Checks each document of a directory against the schema that its
project publishes: custom resources against their definition, Kubernetes' own
resources against those of the API server. What the schema does not know is an
error. The rules in CEL (x-kubernetes-validations) are not evaluated.

A selector of pods, or of Services, selects some of the same directory: none at all, or an
empty one, is an error as well.

usage: check-kubernetes.py MANIFESTS DEFINITIONS...   (directories or files)
"""
import copy
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

KUBERNETES = "1.34"

# `=`, which one of the schemas lists among its words, is a word.
yaml.SafeLoader.add_constructor(
    "tag:yaml.org,2002:value", lambda loader, node: loader.construct_scalar(node)
)


def documents(places, pattern="*.yaml"):
    for place in map(pathlib.Path, places):
        files = sorted(place.rglob(pattern)) if place.is_dir() else [place]
        for file in files:
            text = file.read_text()
            # Helm's templates around a definition are no YAML.
            text = "\n".join(l for l in text.splitlines() if not l.startswith("{{"))
            for document in yaml.safe_load_all(text):
                if document:
                    yield file, document


def strict(schema):
    """OpenAPI v3, as Kubernetes has it, as JSON Schema, with unknown keys refused."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: strict(value) for key, value in schema.items()}
    if own.pop("x-kubernetes-int-or-string", False):
        own.pop("type", None)
    open_ended = own.get("x-kubernetes-preserve-unknown-fields")
    if own.get("type") == "object" and isinstance(own.get("properties"), dict) and not open_ended:
        own.setdefault("additionalProperties", False)
    if own.pop("nullable", False) and "type" in own:
        own["type"] = [own["type"], "null"]
    return own


def definitions(places):
    found = {}
    for _, document in documents(places):
        if document.get("kind") != "CustomResourceDefinition":
            continue
        spec = document["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}"
            schema = strict(version["schema"]["openAPIV3Schema"])
            # The API server knows these of every resource.
            schema["properties"].update(
                {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
                 "metadata": {"type": "object"}}
            )
            found[name, spec["names"]["kind"]] = schema
    return found


def errors(document, known):
    key = document["apiVersion"], document["kind"]
    if key in known:
        validator = jsonschema.Draft4Validator(known[key])
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    group = key[0].split("/")[0]
    if "." in group and group != "networking.k8s.io":
        return [f"no definition of {key[1]} ({key[0]}) was given"]
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error.message)]
    return []


# The place in `spec` of the selector of what a kind is for, and which kind that is.
SELECTORS = {
    "NetworkPolicy": ("podSelector", "Pod"),
    "PodDisruptionBudget": ("selector", "Pod"),
    "PodMonitor": ("selector", "Pod"),
    "Service": ("selector", "Pod"),
    "ServiceMonitor": ("selector", "Service"),
}


def selector_of(document):
    """Where the document has its selector, and of which kind; None if it needs none."""
    is_name = document["kind"] == "Service" and document["spec"].get("type") == "ExternalName"
    return None if is_name else SELECTORS.get(document["kind"])


def labelled(document):
    """The kind, the namespace and the labels of what a document is, or makes."""
    spec = document.get("spec") or {}
    # A CronJob makes Jobs.
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    of_pods = isinstance(template, dict)
    kind = "Pod" if of_pods else document["kind"]
    labels = (template if of_pods else document).get("metadata", {}).get("labels") or {}
    return kind, document["metadata"].get("namespace"), labels


def selects(selector, labels):
    """Whether a selector takes these labels; one that asks for nothing takes none."""
    wanted = selector.get("matchLabels") or {}
    rules = selector.get("matchExpressions") or []
    holds = {
        "In": lambda rule: labels.get(rule["key"]) in rule["values"],
        "NotIn": lambda rule: labels.get(rule["key"]) not in rule["values"],
        "Exists": lambda rule: rule["key"] in labels,
        "DoesNotExist": lambda rule: rule["key"] not in labels,
    }
    return bool(wanted or rules) and wanted.items() <= labels.items() and all(
        holds[rule["operator"]](rule) for rule in rules
    )


def strays(document, all_of_them):
    """What is wrong with the selector of a document among others."""
    if not (place := selector_of(document)):
        return []
    key, kind = place
    selector = document["spec"].get(key)
    if not selector:
        return [f"{document['kind']}: `spec.{key}` is absent, or empty"]
    if document["kind"] == "Service":
        selector = {"matchLabels": selector}
    namespace = document["metadata"].get("namespace")
    for other in all_of_them:
        own_kind, own_namespace, labels = labelled(other)
        if (own_kind, own_namespace) == (kind, namespace) and selects(selector, labels):
            return []
    return [f"{document['kind']}: `spec.{key}` selects no {kind} of these manifests"]


def odd_selectors(document):
    """Copies of a document with a selector that is wrong."""
    if not (place := selector_of(document)):
        return
    nobody = {"app": "nobody"}
    for wrong in [None, {}, nobody if document["kind"] == "Service" else {"matchLabels": nobody}]:
        odd = copy.deepcopy(document)
        odd["spec"][place[0]] = wrong
        yield odd


def main(manifests, *places):
    known = definitions(places)
    failed = checked = 0
    found = list(documents([manifests]))
    together = [document for _, document in found]
    for file, document in found:
        for error in errors(document, known) + strays(document, together):
            print(f"{file}: {error}", file=sys.stderr)
            failed += 1
        # What is checked can fail: a key too many is found.
        odd = copy.deepcopy(document)
        # A ConfigMap has no spec, and a ServiceAccount neither.
        odd.get("spec", odd)["noSuchKey"] = 1
        if not errors(odd, known):
            print(f"{file}: an unknown key goes unnoticed", file=sys.stderr)
            failed += 1
        if not all(strays(odd, together) for odd in odd_selectors(document)):
            print(f"{file}: a selector of nothing goes unnoticed", file=sys.stderr)
            failed += 1
        checked += 1
        print(f"{file}: {document['kind']} ({document['apiVersion']})")
    if not checked:
        print(f"{manifests}: nothing to check", file=sys.stderr)
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

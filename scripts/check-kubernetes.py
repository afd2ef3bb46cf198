#!/usr/bin/env python3
"""Checks each document of a directory against the schema that its
project publishes: custom resources against their definition, Kubernetes' own
resources against those of the API server. What the schema does not know is an
error. The rules in CEL (x-kubernetes-validations) are not evaluated.

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


def main(manifests, *places):
    known = definitions(places)
    failed = checked = 0
    for file, document in documents([manifests]):
        for error in errors(document, known):
            print(f"{file}: {error}", file=sys.stderr)
            failed += 1
        # What is checked can fail: a key too many is found.
        odd = copy.deepcopy(document)
        # A ConfigMap has no spec, and a ServiceAccount neither.
        odd.get("spec", odd)["noSuchKey"] = 1
        if not errors(odd, known):
            print(f"{file}: an unknown key goes unnoticed", file=sys.stderr)
            failed += 1
        checked += 1
        print(f"{file}: {document['kind']} ({document['apiVersion']})")
    if not checked:
        print(f"{manifests}: nothing to check", file=sys.stderr)
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

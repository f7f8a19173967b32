"""deploy/: manifests that fit the code, alerts and panels whose metrics exist."""

import json
import re
from pathlib import Path

import promql_parser as promql
import pytest
import yaml
from typer.testing import CliRunner

from respool import __version__, serve
from respool.cli import app
from respool.http import health_only
from respool.roles import Role
from respool.settings import PREFIX, Settings, load
from streams import metrics

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


# ---- Kubernetes


def manifests():
    """Every object, as `kubectl apply -k` would take them."""
    index = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = [KUBERNETES / name for name in index["resources"]]
    assert {path.name for path in KUBERNETES.glob("*.yaml")} == {
        *(path.name for path in files),
        "kustomization.yaml",
    }
    return [one for path in files for one in yaml.safe_load_all(path.read_text())]


OBJECTS = manifests()


def of_kind(kind):
    return {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == kind}


DEPLOYMENTS = of_kind("Deployment")
SHARED = of_kind("ConfigMap")["respool"]["data"]
SECRETS = of_kind("Secret")["respool"]["stringData"]


def pod_of(role):
    return DEPLOYMENTS[f"respool-{role}"]["spec"]["template"]["spec"]


def container_of(role):
    (found,) = pod_of(role)["containers"]
    return found


@pytest.fixture(params=list(Role))
def role(request):
    return request.param


@pytest.fixture
def settings(role, monkeypatch, tmp_path):
    """What a process of that role reads there."""
    monkeypatch.chdir(tmp_path)
    own = {one["name"]: one["value"] for one in container_of(role).get("env", [])}
    for name, value in {**SHARED, **SECRETS, **own}.items():
        assert isinstance(value, str), name
        monkeypatch.setenv(name, value)
    return load()


def test_there_is_a_deployment_for_each_role_and_each_can_lose_a_process():
    assert set(DEPLOYMENTS) == {f"respool-{role}" for role in Role}
    for name, one in DEPLOYMENTS.items():
        spec = one["spec"]
        assert spec["replicas"] >= 2, name
        budget = of_kind("PodDisruptionBudget")[name]["spec"]
        assert budget["maxUnavailable"] < spec["replicas"]
        labels = spec["template"]["metadata"]["labels"]
        assert budget["selector"]["matchLabels"] == spec["selector"]["matchLabels"] == labels
        assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_what_is_run_is_what_the_image_takes(role):
    container = container_of(role)
    assert container["args"] == ["serve", "--role", role]
    assert container["image"] == f"respool:{__version__}"
    helped = CliRunner().invoke(app, [*container["args"], "--help"])
    assert helped.exit_code == 0
    image = (ROOT / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["respool"]' in image
    user = pod_of(role)["securityContext"]["runAsUser"]
    assert re.search(rf"^USER {user}:", image, re.MULTILINE)


def test_every_setting_is_one_and_its_value_is_taken(settings, role):
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    own = [one["name"] for one in container_of(role).get("env", [])]
    assert {*SHARED, *SECRETS, *own} <= known
    assert not pod_of(role)["enableServiceLinks"], "a Service sets RESPOOL_PORT to something else"
    assert settings.tenants
    assert not settings.loopback
    sources = [next(iter(one)) for one in container_of(role)["envFrom"]]
    assert sources == ["configMapRef", "secretRef"]
    kept = {name for name, field in Settings.model_fields.items() if "Secret" in str(field)}
    assert not [name for name in SHARED if name.removeprefix(PREFIX).lower() in kept]


def test_ports_and_paths_of_probes_and_scrapes_are_served(settings, role):
    served = {route.path for route in health_only(serve.Health.__new__(serve.Health)).routes}
    container = container_of(role)
    (port,) = container["ports"]
    assert port["containerPort"] == settings.port
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in served
        assert asked["port"] == port["name"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    notes = DEPLOYMENTS[f"respool-{role}"]["spec"]["template"]["metadata"]["annotations"]
    assert notes["prometheus.io/path"] in served
    assert int(notes["prometheus.io/port"]) == settings.port


def test_the_service_leads_to_the_api():
    spec = of_kind("Service")["respool"]["spec"]
    assert spec["selector"] == DEPLOYMENTS["respool-api"]["spec"]["selector"]["matchLabels"]
    (port,) = spec["ports"]
    assert port["targetPort"] == container_of("api")["ports"][0]["name"]


def test_there_is_time_to_drain(settings, role):
    hook = container_of(role).get("lifecycle", {}).get("preStop", {}).get("exec", {})
    word, seconds = hook.get("command", ["sleep", "0"])
    assert word == "sleep"
    assert (role == Role.API) == (int(seconds) > 0)
    grace = pod_of(role)["terminationGracePeriodSeconds"]
    assert grace > int(seconds) + settings.drain_s + serve.LAST_S
    if role == Role.TOOLS:
        assert settings.drain_s > settings.tool_timeout_s


def test_nothing_is_root_and_nothing_can_be_written(role):
    pod, container = pod_of(role), container_of(role)
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    resources = container["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_what_is_scaled_is_there():
    for name, one in of_kind("HorizontalPodAutoscaler").items():
        target = one["spec"]["scaleTargetRef"]
        assert target["name"] == name
        assert one["spec"]["minReplicas"] == DEPLOYMENTS[name]["spec"]["replicas"]


# ---- alerts and panels

RULES = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
PANELS = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
OF_THE_SCRAPER = {"instance"}
"""Labels that Prometheus adds."""
MADE = {"role"}
"""Labels that an expression makes by itself."""


def selectors(query):
    """Every selector of a query, and the labels that it groups by."""
    found, grouped = [], set()

    def look(node):
        if isinstance(node, promql.MatrixSelector):
            look(node.vector_selector)
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        if isinstance(node, promql.AggregateExpr) and node.modifier:
            grouped.update(node.modifier.labels)
        for name in ("lhs", "rhs", "expr"):
            if (inner := getattr(node, name, None)) is not None:
                look(inner)
        for inner in getattr(node, "args", None) or []:
            look(inner)

    look(promql.parse(query))
    return found, grouped


def base_of(name):
    """The figure that a sample belongs to."""
    plain = name.removeprefix(metrics.PREFIX)
    for ending in ("_bucket", "_sum", "_count"):
        if plain.removesuffix(ending) in metrics.BOUNDS:
            return plain.removesuffix(ending)
    return plain


def queries():
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m").replace("$__range", "1h")
            yield panel["title"], expr


@pytest.mark.parametrize(("name", "query"), list(queries()))
def test_what_is_asked_for_exists_with_its_labels_and_values(name, query):
    found, grouped = selectors(query)
    assert found, name
    allowed = {"le", *OF_THE_SCRAPER}
    for one in found:
        base = base_of(one.name)
        assert base in metrics.NAMES, one.name
        assert (base in metrics.BOUNDS) == one.name.endswith("_bucket"), one.name
        labels = metrics.LABELS.get(base, {})
        allowed |= set(labels)
        for matcher in one.matchers.matchers:
            assert matcher.name in labels, (one.name, matcher.name)
            known = labels[matcher.name]
            if known and "~" not in str(matcher.op) and "RE" not in str(matcher.op).upper():
                assert matcher.value in known
            if known:
                for value in re.findall(r"\w[\w ]*", matcher.value):
                    assert value in known, (one.name, value)
    assert grouped <= allowed
    counted = re.findall(rf"({metrics.PREFIX}\w+_total)(?:\{{[^}}]*\}})?(\[)?", query)
    assert all(ranged for _, ranged in counted), "a counter means something over a time only"


def test_each_rule_says_how_bad_it_is_and_what_is_wrong():
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        asked = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        _, grouped = selectors(rule["expr"])
        assert asked <= grouped | OF_THE_SCRAPER | MADE, rule["alert"]


def test_every_role_that_must_be_there_is_watched():
    (rule,) = [rule for rule in RULES if rule["alert"] == "RespoolRoleAbsent"]
    for match, roles in (("api", "api"), ("translate", "api,ingest,tools,translate")):
        values = re.findall(r'roles=~"([^"]+)"', rule["expr"])
        (pattern,) = [value for value in values if match in value]
        assert re.fullmatch(pattern, roles)
    assert not [
        v for v in re.findall(r'roles=~"([^"]+)"', rule["expr"]) if re.fullmatch(v, "tools")
    ]


def documented_alerts():
    """The alerts that docs/operations.md explains."""
    text = (ROOT / "docs" / "operations.md").read_text()
    return re.findall(r"^\| `(Respool\w+)` \|", text, re.MULTILINE)


def test_every_alert_is_explained_and_no_other():
    assert documented_alerts() == [rule["alert"] for rule in RULES]


def test_panels_have_a_name_a_place_and_a_source_of_their_own():
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}
    assert len(places) == len(PANELS)
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${source}"}

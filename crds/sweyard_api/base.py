"""What all API models share: frozen, strict about unknown keys, camelCase on the wire."""

import ipaddress
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from sweyard_api.rule import Rule


def _add_rules(schema: dict[str, Any], model: type["Model"]) -> None:
    rules = [rule.as_kubernetes_validation() for rule in model.rules if rule.cel]
    if rules:
        schema["x-kubernetes-validations"] = rules


class Model(BaseModel):
    """A frozen value with camelCase keys in YAML and snake_case names in Python.

    A docstring below a field becomes its description in the CRD, hence in `kubectl explain`.
    Building a value checks each field; `sweyard_api.problem.broken_rules` checks the rules between fields.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
        json_schema_extra=_add_rules,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()


def aliases(model: type[Model]) -> tuple[str, ...]:
    """The names of a model's fields in YAML."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME_PATTERN = rf"^{_DNS_LABEL}$"
DOTTED_NAME_PATTERN = rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$"
DOTTED_NAME_OR_EMPTY_PATTERN = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*)?$"
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
LINE_PATTERN = r"^\S(.*\S)?$"
_HOST = r"((localhost|[-A-Za-z0-9]+(\.[-A-Za-z0-9]+)+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?|[-A-Za-z0-9]+:[0-9]+)"
"""Of a registry, as image names carry it: a first part without a dot or a port belongs to a name on Docker Hub."""
_PATH_PART = r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*"
_DIGEST = r"@sha256:[0-9a-f]{64}"
REGISTRY_PATTERN = rf"^{_HOST}$"
REPOSITORY_PATTERN = rf"^{_HOST}(/{_PATH_PART})*$"
# Looser than the grammar: what an API server spends on a thousand names is bounded, and grows with this text.
_PART = r"[a-z0-9][-a-z0-9._]*"
_TAG = r":[0-9A-Za-z_][-0-9A-Za-z_.]*"
IMAGE_NAME_PATTERN = rf"^([-0-9A-Za-z.]*[.:][-0-9A-Za-z.:]*/)?{_PART}(/{_PART})*({_TAG}({_DIGEST})?|{_DIGEST})$"
IMAGE_NAME_RULE = (
    "an image needs a tag or a digest, and a repository in lower case (host/path/name:tag or name@sha256:...); a bare "
    "name would silently mean :latest"
)
REGISTRY_RULE = "must be a registry as image names have it: host[:port], with a dot or a port, without https://"
REPOSITORY_RULE = "must be where images lie: host[:port][/prefix], the host with a dot or a port, without https://"
_UNIT = r"(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?"
QUANTITY_PATTERN = rf"^[0-9]+(\.[0-9]+)?{_UNIT}$"
POSITIVE_QUANTITY_PATTERN = rf"^([0-9]*[1-9][0-9]*(\.[0-9]+)?|0+\.[0-9]*[1-9][0-9]*){_UNIT}$"

IMPORT_PATH_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"

ImportPath = Annotated[str, Field(pattern=IMPORT_PATH_PATTERN, max_length=256)]
"""A user's own function: `pkg.module:name`."""

DnsName = Annotated[str, Field(pattern=DNS_NAME_PATTERN, min_length=1, max_length=63)]
"""A name of a Kubernetes object (RFC 1123 label)."""

DottedName = Annotated[str, Field(pattern=DOTTED_NAME_PATTERN, min_length=1, max_length=253)]
"""A name of a Kubernetes object of the kinds whose names may hold dots (RFC 1123 subdomain)."""


def _matching(pattern: str, message: str) -> Any:
    """A field's pattern, told by the API server in words of ours: its own would be the pattern."""
    rule = {"rule": f"self.matches(r'{pattern}')", "message": message}
    schema: dict[str, Any] = {"pattern": None, "x-kubernetes-validations": [rule]}
    return Field(pattern=pattern, json_schema_extra=schema)


ImageName = Annotated[str, Field(min_length=1, max_length=512), _matching(IMAGE_NAME_PATTERN, IMAGE_NAME_RULE)]
"""A container image with a tag or a digest; a bare name would silently mean :latest."""

RegistryHost = Annotated[str, Field(min_length=1, max_length=253), _matching(REGISTRY_PATTERN, REGISTRY_RULE)]
"""What image names begin with: docker.io, registry.example:5000."""

Repository = Annotated[str, Field(min_length=1, max_length=253), _matching(REPOSITORY_PATTERN, REPOSITORY_RULE)]
"""Where images lie: registry.example:5000/tasks."""

_CIDR_RULE = (
    "must be a block of addresses with no bit set beyond its prefix, such as 10.0.0.0/8, 192.0.2.7/32 or "
    "2001:db8::/32; a host's name cannot be allowed"
)


def _check_cidr(value: str) -> str:
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise PydanticCustomError("cidr", _CIDR_RULE) from error
    if "/" not in value or value.partition("/")[2] != str(network.prefixlen):
        raise PydanticCustomError("cidr", _CIDR_RULE)
    return value


Cidr = Annotated[
    str,
    AfterValidator(_check_cidr),
    Field(
        max_length=64,
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": "isCIDR(self) && cidr(self) == cidr(self).masked()", "message": _CIDR_RULE}
            ]
        },
    ),
]
"""A block of addresses, as a NetworkPolicy takes it."""


def _quantity_text(value: object) -> object:
    """YAML reads `cpu: 4` as a number; Kubernetes takes it as the quantity "4"."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _quantity_schema(pattern: str, minimum: int) -> WithJsonSchema:
    """`pattern` judges what is written as text, `minimum` what is written as a number."""
    return WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": pattern,
            "minimum": minimum,
            "maxLength": 32,
        }
    )


Quantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    Field(pattern=QUANTITY_PATTERN, max_length=32),
    _quantity_schema(QUANTITY_PATTERN, 0),
]
"""A Kubernetes quantity such as 500m, 4Gi, or the number 4."""

PositiveQuantity = Annotated[
    str,
    BeforeValidator(_quantity_text),
    Field(pattern=POSITIVE_QUANTITY_PATTERN, max_length=32),
    _quantity_schema(POSITIVE_QUANTITY_PATTERN, 1),
]
"""A Quantity that is not zero: what is of size 0 holds nothing, or is unlimited, depending on who reads it."""

Tokens = Annotated[int, Field(ge=1, le=100_000_000)]
"""A number of tokens: more than any context or batch has."""

MAX_STEPS = 10_000_000
MAX_SECONDS = 10 * 365 * 86_400
"""Ten years: what is added to a date must give one."""

Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
"""What every generator of random numbers takes as it is; vLLM's are NumPy's, too, which have 32 bits."""


_MULTIPLIERS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTP", start=1)
}


def quantity_value(quantity: str) -> float:
    """The number that a Quantity stands for, in its base unit (cores, bytes, devices)."""
    number = quantity.rstrip("".join({letter for suffix in _MULTIPLIERS for letter in suffix}))
    return float(number) * _MULTIPLIERS.get(quantity[len(number) :], 1.0)


Labels = Annotated[dict[str, Annotated[str, Field(max_length=63, pattern=LABEL_VALUE_PATTERN)]], Field(max_length=32)]
"""Labels and their values."""


Annotations = Annotated[dict[str, Annotated[str, Field(max_length=4_096)]], Field(max_length=32)]
"""Annotations and their values."""


class ResourceRequirements(Model):
    """Requests and limits of one container, as in core/v1."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = {}
    """What the scheduler reserves, for example {"cpu": "1", "memory": "2Gi"}."""
    limits: Annotated[dict[str, PositiveQuantity], Field(max_length=16)] = {}
    """What the kubelet enforces, which takes 0 for no limit; extended resources such as nvidia.com/gpu belong here."""

    rules = (
        Rule(
            "requests",
            "a request exceeds the limit of the same resource: raise the limit or lower the request",
            lambda resources: all(
                quantity_value(amount) <= quantity_value(resources.limits.get(name, amount))
                for name, amount in resources.requests.items()
            ),
            "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits)"
            " || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        ),
    )

"""What people and holders write into a sandbox's annotations is text, and whatever it is, the pod can be read."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sweyard_api.constants import (
    ANNOTATION_CLAIMED_AT,
    ANNOTATION_HOLDER,
    ANNOTATION_IMAGE,
    ANNOTATION_RECYCLED,
    ANNOTATION_RELEASE,
    ANNOTATION_TEMPLATE_HASH,
)
from sweyard_operator.observe.sandbox_pods import parse_pod
from sweyard_operator.plan.stage_times import stage_seconds

NAMES = (
    *(ANNOTATION_HOLDER, ANNOTATION_CLAIMED_AT, ANNOTATION_RELEASE),
    *(ANNOTATION_RECYCLED, ANNOTATION_IMAGE, ANNOTATION_TEMPLATE_HASH),
)
NUMBERS_AND_TIMES = st.from_regex(r"-?[0-9]{1,9}", fullmatch=True) | st.datetimes().map(str)


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30) | NUMBERS_AND_TIMES))
@example({ANNOTATION_RECYCLED: "9" * 5_000})
@example({ANNOTATION_CLAIMED_AT: "2026-01-01T00:00:00"})
def test_a_pod_with_any_annotations_can_be_read(annotations: dict[str, str]) -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    owner = {"uid": "u", "controller": True}
    metadata: dict[str, Any] = {"name": "pool-0", "uid": "p", "resourceVersion": "1", "ownerReferences": [owner]}
    metadata |= {"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations}
    pod = {"metadata": metadata, "spec": {"containers": []}, "status": {"conditions": [condition]}}
    parsed = parse_pod("pool", "u", pod)
    assert parsed is not None
    is_offered = annotations.get(ANNOTATION_HOLDER) == "" and ANNOTATION_CLAIMED_AT not in annotations
    assert parsed.is_spoilt == (not is_offered and not annotations.get(ANNOTATION_HOLDER))
    stage_seconds(parsed)

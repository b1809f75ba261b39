"""`check_attention`: callables of every kind, the options, the verdict as an exception and as data."""

import importlib.util
import inspect
import json

import jsonschema
import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.evaluator import AttentionEvaluator
from attnprune_verify.audit.kernel.process.callables import framework_meant, kernel_of
from attnprune_verify.audit.kernel.process.parameters import documented, plainly_called
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.spec import parametrize_with_kernel_checks

FEW = ("*:values:plain", "*:values:causal", "*:values:scale", "*:shape")


def right(q, k, v, *, causal=False, scale=None):
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def backward(q, k, v, do, *, causal=False, scale=None):
    factor = q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    s = (q @ np.swapaxes(k, -1, -2)) * factor
    s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf) if causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    dp = do @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * factor
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ do


def spelled(query, key, value, is_causal=False, sm_scale=None):
    return right(query, key, value, causal=is_causal, scale=sm_scale)


def unscaled(q, k, v, *, causal=False):
    return right(q, k, v, causal=causal, scale=1.0)


def statuses(result):
    return {one.id: one.status for one in result.checks}


@pytest.mark.parametrize("fn", [right, spelled])
def test_a_right_function_passes_with_its_keywords(fn):
    verdict = apv.check_attention(fn, backward=backward, only=FEW)
    assert verdict.outcome == "passed" and verdict.counterexample is None
    assert set(statuses(verdict).values()) == {"passed"} and len(verdict.checks) == 8
    verdict.assert_passed()


def test_a_wrong_one_fails_with_one_counterexample_that_shows_it():
    verdict = apv.check_attention(unscaled, only=FEW)
    assert verdict.diagnosis == {"attention": ("missing-scale",)}
    with pytest.raises(AssertionError, match="missing-scale"):
        verdict.assert_passed()
    found = json.loads(json.dumps(verdict.counterexample))
    arrays = {name: np.array(one["data"], np.float32).reshape(one["shape"]) for name, one in found["inputs"].items()}

    def inside(o):
        low, high = (np.array(found[end]["o"]["data"]).reshape(o.shape) for end in ("lowest", "highest"))
        return bool(((low <= o) & (o <= high)).all())

    assert inside(right(**arrays, **found["keywords"])) and not inside(unscaled(**arrays, **found["keywords"]))
    assert np.array_equal(np.array(found["returned"]["o"]["data"], np.float32), unscaled(**arrays).ravel())


def test_the_json_has_the_counterexample_and_meets_the_schema():
    from importlib import resources

    schema = json.loads(resources.files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text())
    document = apv.check_attention(unscaled, only=FEW).as_dict()
    jsonschema.validate(json.loads(json.dumps(document)), schema)
    assert document["counterexample"]["check"].startswith("attention:values:")


@pytest.mark.parametrize("names", ["never", "first", pytest.param("all", marks=pytest.mark.thorough)])
def test_names_are_looked_for_as_often_as_chosen(names):
    def windowed(q, k, v, *, causal=False, scale=None):  # two mistakes, of which no name explains both
        o = right(q, k, v, causal=causal, scale=scale)
        return -o if scale is not None else 1.5 * o if causal else o

    verdict = apv.check_attention(windowed, only=FEW, names=names)
    failed = [one.diagnosis for one in verdict.checks if one.status == "failed"]
    assert len(failed) == 2 and sum(one == () for one in failed) >= {"never": 2, "first": 1, "all": 0}[names]
    if names == "never":
        assert set(failed) == {()}
    if names == "all":
        assert failed[0] != ("unknown",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": "some"}, "names must be one of"),
        ({"modes": "slow"}, "modes must be of"),
        ({"only": "attention:value"}, "matches none"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"framework": "tensorflow"}, "framework must be one of"),
        ({"device": "cuda"}, "device must be cpu for a NumPy kernel"),
        ({"device": ""}, "device must be a text"),
        ({"limit": -1}, "limit must be a positive number"),
        ({"backward": 3}, "backward must be callable"),
        ({"device": "cuda", "confine": "required"}, "confine must be"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(options, words):
    with pytest.raises(InvalidInstance, match=words):
        apv.check_attention(right, **options)


def test_a_parameter_that_nobody_can_fill_is_refused():
    def needing(q, k, v, dropout):
        return q

    with pytest.raises(InvalidInstance, match="got dropout"):
        apv.check_attention(needing)
    with pytest.raises(InvalidInstance, match="go with a callable"):
        apv.check_attention("numpy", framework="numpy")


def test_what_takes_fewer_arrays_is_refused_in_a_sentence():
    with pytest.raises(InvalidInstance, match=r"must take q, k, v; got \(qkv\): name the function inside"):
        apv.check_attention(lambda qkv: qkv)


def test_weights_beside_the_result_are_named_as_such():
    result = apv.check_attention(lambda q, k, v: (right(q, k, v), q), only="attention:values:plain")
    assert "returns 2 things where o alone is asked for" in next(iter(result.checks)).reason


def test_the_evaluator_speaks_plain_data():
    evaluator = AttentionEvaluator(only="*:values:plain", seed=0)
    verdict = evaluator.evaluate(lambda q, k, v: 0 * q)
    assert json.loads(json.dumps(verdict)) == verdict and verdict["compiled"] and not verdict["correctness"]
    assert verdict["metadata"]["diagnosis"]["attention"][0] == "zero-output" and verdict["metadata"]["seed"] == 0
    assert evaluator.evaluate(3)["compiled"] is False
    raised = evaluator.evaluate(lambda q, k, v: 1 / 0)
    assert not raised["correctness"]


def test_the_evaluator_judges_answers_that_came_from_elsewhere():
    evaluator = AttentionEvaluator(seed=0)
    place, one = next((i, q) for i, q in enumerate(evaluator.questions()) if q.keywords == {"causal": True})
    inputs = {name: array.astype(np.float32) for name, array in one.inputs.items()}
    o = right(**inputs, **one.keywords)
    assert evaluator.judge(place, {"o": o})["status"] == "passed"
    assert evaluator.judge(place, {"o": right(**inputs)})["status"] == "failed"
    for answers in ({}, {"o": o[..., :1]}):
        with pytest.raises(InvalidInstance):
            evaluator.judge(place, answers)
    with pytest.raises(InvalidInstance):
        evaluator.judge(10_000, {"o": o})
    assert AttentionEvaluator().seed != AttentionEvaluator().seed


def test_the_framework_is_read_off_the_callable():
    torch = pytest.importorskip("torch")

    def by_method(q, k, v):
        return q.softmax(-1) @ v

    assert framework_meant(right) == "numpy" == framework_meant(by_method)
    assert framework_meant(lambda q, k, v: torch.softmax(q, -1)) == "torch"
    assert framework_meant(torch.nn.functional.scaled_dot_product_attention) == "torch"
    assert framework_meant(torch.nn.Identity()) == "torch"
    assert kernel_of(by_method, framework="torch")["FRAMEWORK"] == "torch"


def test_the_framework_is_that_of_the_class_behind_an_object_that_the_code_names():
    """A kernel calls `apply` of its own class of torch.autograd.Function, or its own module."""

    class Theirs:
        __module__ = "torch.autograd.function"

    class Mine(Theirs):
        __module__ = "mine"

    Mine.apply = staticmethod(right)
    made = Mine()
    assert framework_meant(lambda q, k, v: Mine.apply(q, k, v)) == "torch"
    assert framework_meant(lambda q, k, v: made.apply(q, k, v)) == "torch"
    assert framework_meant(lambda q, k, v: statuses(q)) == "numpy"


@pytest.mark.thorough
def test_the_framework_of_a_compiled_callable():
    assert framework_meant(pytest.importorskip("jax").jit(lambda q, k, v: q)) == "jax"


SWAPPED = """
import torch

def attention(q, k, v, *, scale=None):
    s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return torch.softmax(s, -1) @ v
"""
THERE_AND_BACK = """
import torch

def attention(q, k, v):
    q, k, v = map(torch.from_numpy, (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).numpy()
"""


OF_JAX = """
import jax
import jax.numpy as jnp

def attention(q, k, v):
    s = jnp.einsum("bhic,bhjc->bhij", q, k, precision="highest") * q.shape[-1] ** -0.5
    return jnp.einsum("bhij,bhjc->bhic", jax.nn.softmax(s, axis=-1), v, precision="highest")
"""


@pytest.mark.parametrize(
    ("source", "framework", "package"),
    [
        (SWAPPED, "torch", "torch"),
        (OF_JAX, "jax", "jax"),  # which takes NumPy's arrays, too
        pytest.param(THERE_AND_BACK, "numpy", "torch", marks=pytest.mark.thorough),
    ],
)
def test_a_file_that_declares_nothing_is_given_what_it_takes(source, framework, package, tmp_path):
    if importlib.util.find_spec(package) is None:  # jax, once imported, warns of the forks of later tests
        pytest.skip(f"needs the package {package}")
    path = tmp_path / "kernel.py"
    path.write_text(source)
    result = apv.check_attention(str(path), only="attention:values:plain")
    assert result.outcome == "passed" and framework in result.notes["attention"]


@pytest.fixture(scope="module")
def of_torch():
    torch = pytest.importorskip("torch")

    def formula(q, k, v, causal, scale):
        s = (q @ k.transpose(-1, -2)) * scale
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), float("-inf")) if causal else s
        return torch.softmax(s, -1)

    class Function(torch.autograd.Function):
        sign = 1.0

        @staticmethod
        def forward(ctx, q, k, v, causal, sm_scale):
            p = formula(q, k, v, causal, sm_scale)
            ctx.save_for_backward(q, k, v, p)
            ctx.scale = sm_scale
            return p @ v

        @classmethod
        def backward(cls, ctx, do):
            q, k, v, p = ctx.saved_tensors
            dp = do @ v.transpose(-1, -2)
            ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * ctx.scale
            return cls.sign * ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ do, None, None

    @torch.library.custom_op("attnprune_test::attention", mutates_args=())
    def operator(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, scale: float | None = None
    ) -> torch.Tensor:
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        return formula(q, k, v, is_causal, scale) @ v

    return torch, Function, operator


def test_the_parameters_of_a_torch_module_are_those_of_its_forward():
    torch = pytest.importorskip("torch")

    class Later(torch.nn.Module):
        def forward(self, q, k, v, is_causal=False):
            s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            later = torch.ones(s.shape[-2:], dtype=torch.bool).triu(2)
            return torch.softmax(s.masked_fill(later, float("-inf")) if is_causal else s, -1) @ v

    result = apv.check_attention(Later(), only=("attention:values:plain", "attention:values:causal"))
    assert statuses(result) == {"attention:values:plain": "passed", "attention:values:causal": "failed"}


def test_no_gradient_is_judged_of_what_returns_more_than_its_result():
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    result = apv.check_attention(lambda q, k, v: (attend(q, k, v), q), only="*:values:plain", framework="torch")
    assert statuses(result) == {"attention:values:plain": "failed", "attention_backward:values:plain": "could_not_run"}


def test_a_class_of_autograd_function_is_a_subject(of_torch):
    _, function, _ = of_torch
    verdict = apv.check_attention(function, only=FEW)
    assert verdict.outcome == "passed" and set(statuses(verdict).values()) == {"passed"}

    class Wrong(function):
        sign = -1.0

    wrong = apv.check_attention(Wrong, only=FEW)
    assert wrong.diagnosis == {"attention_backward": ("gradient-sign",)}


def test_an_operator_of_torch_library_is_a_subject(of_torch):
    torch, _, operator = of_torch
    for one in (operator, torch.ops.attnprune_test.attention, torch.ops.attnprune_test.attention.default):
        verdict = apv.check_attention(one, only="attention:values:causal")
        assert verdict.outcome == "passed" and verdict.target == "attnprune_test::attention"


def test_the_currency_stands_in_the_notes(of_torch):
    torch, *_ = of_torch
    fused = torch.nn.functional.scaled_dot_product_attention
    notes = apv.check_attention(lambda q, k, v: fused(q, k, v), framework="torch", dtype="bfloat16", only=FEW).notes
    for note in notes.values():
        mine, theirs = (float(part.split(" times")[0].split()[-1]) for part in note.split(";")[-2:])
        assert mine == theirs and 0.1 < mine < 3


def test_the_pytest_form_takes_a_callable_and_patterns():
    mark = parametrize_with_kernel_checks(spelled, backward=backward, only="*:values:causal")
    assert [one.id for one in mark.args[1]] == ["attention:values:causal", "attention_backward:values:causal"]
    for one in mark.args[1]:
        one.values[0]()


def test_a_sample_that_is_gone_leaves_its_reply_to_no_other():
    """Replies are known by the sample's id, which Python gives to a later object."""
    from attnprune_verify.audit.kernel.auditor import KernelAuditor

    with KernelAuditor({"attention": right}) as auditor:
        context, plain = auditor.context, auditor.context.regimes()["plain"].samples
        for turn in range(50):
            one = plain[turn % 2].changed(v=plain[turn % 2].v * turn)
            assert np.array_equal(context.answer("attention", one).parts, context.ask("attention", one).parts)


def test_parameters_of_a_builtin_are_those_that_its_docstring_begins_with():
    def written(text):
        def fused(*_): ...

        fused.__doc__ = text
        return {parameter.name: parameter.default for parameter in documented(fused)}

    empty = inspect.Parameter.empty
    text = "fused(q: Tensor, k, /, v, *, causal: bool = False, kind=Kind.fast, out=None) -> (Tensor, int)\n\nMore."
    assert written(text) == {"q": empty, "k": empty, "v": empty, "causal": False, "kind": "Kind.fast", "out": None}
    assert written("def fused(q, scale=f(1)) -> array") == {"q": empty, "scale": "f(1)"}
    assert written("Fused (and fast) attention.") == written("") == {}


def test_a_builtin_without_a_signature_is_called_by_its_own_names():
    torch = pytest.importorskip("torch")
    fused = torch.nn.functional.scaled_dot_product_attention
    only = ("attention:values:plain", "attention:values:causal", "attention:values:mask*")
    found = apv.check_attention(fused, only=only)
    assert "causal" in found.coverage.judged and found.coverage.not_exercised == ("dropout_p", "enable_gqa")
    assert (found.outcome, set(statuses(found).values())) == ("incomplete", {"passed"})
    assert apv.check_attention(fused, only=only, ignored=("dropout_p", "enable_gqa")).outcome == "passed"


def test_the_names_of_published_kernels_are_the_contracts():
    def published(
        query, key, value, attention_mask=None, scaling=None, sliding_window=None, logit_cap=None, attn_bias=None
    ):
        return right(query, key, value)

    _, found = plainly_called(published, 3, "optional")
    assert {*found.own} == {"mask", "scale", "window", "softcap", "bias"} and not found.foreign


def test_what_no_signature_shows_is_never_called_right():
    class Hidden:
        def __call__(self, *given, **more):
            return right(*given, **more)

        __signature__ = "none"

    found = apv.check_attention(Hidden(), only="attention:values:*l*")
    assert found.coverage.not_exercised == ("parameters that no signature shows",) and found.outcome == "incomplete"


@pytest.mark.parametrize(
    ("given", "name"), [(np.float16, "float16"), ("torch.bfloat16", "bfloat16"), ("half", "float16")]
)
def test_a_type_is_told_its_name(given, name):
    with pytest.raises(InvalidInstance, match=f"write '{name}'"):
        apv.check_attention(right, dtype=given)


def test_a_kernel_that_wants_a_gpu_is_told_how():
    def on_gpu(q, k, v):
        raise RuntimeError("q must be a CUDA tensor")

    found = apv.check_attention(on_gpu, only="attention:values:plain")
    assert "--device cuda" in found.checks[0].reason and not found.coverage.declare


def test_a_class_is_no_kernel_and_its_forward_pass_is():
    class Mine:
        def forward(self, q, k, v):
            return right(q, k, v)

    with pytest.raises(InvalidInstance, match="got the class Mine: make an object"):
        apv.check_attention({"attention": Mine})
    with pytest.raises(InvalidInstance, match="write attention = attention.forward"):
        apv.check_attention({"attention": Mine()})


TWO_MISTAKES = """
import numpy as np

def attention(q, k, v, CAUSAL=False, MASK=None):
    s = q @ np.swapaxes(k, -1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
    if CAUSAL:
        s = np.where(np.tri(*s.shape[-2:], 1, dtype=bool), s, -np.inf)
    if MASK is not None:
        s = np.where(MASK, -np.inf, s)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return p / np.where(total > 0, total, 1) @ v
"""


def by_command(text, folder, capsys, *more):
    path = folder / "two.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["audit-kernel", str(path), "--quick", *more])
    return ended.value.code, " ".join(capsys.readouterr().out.split())


def by_function(text, **options):
    found = {}
    exec(text, found)  # noqa: S102
    return apv.check_attention(found["attention"], quick=True, **options)


def test_a_parameter_that_no_check_passes_is_told_by_command_and_function(tmp_path, capsys):
    text = TWO_MISTAKES.replace("CAUSAL", "use_causal").replace("MASK", "blocked")
    code, said = by_command(text, tmp_path, capsys, "--quiet")
    assert code == 3 and "Never exercised: use_causal, blocked;" in said and "Outcome: incomplete" in said
    verdict = by_function(text, only="attention:values:plain")
    assert verdict.outcome == "incomplete" and "never exercised: use_causal, blocked" in repr(verdict)


def test_two_mistakes_are_named_apart_and_where_they_meet(tmp_path, capsys):
    """Also on instances that are larger than those on which all formulas are tried."""
    text = TWO_MISTAKES.replace("CAUSAL", "is_causal").replace("MASK", "attn_mask")
    code, said = by_command(text, tmp_path, capsys, "--quiet", "--only", "*:causal", "--only", "*:mask")
    assert code == 1 and "(causal-off-by-one, mask-inverted" in said
    both = ("causal-off-by-one", "mask-inverted")
    shown = {"causal": both[:1], "larger-causal": both[:1], "shape-576": both[:1], "mask": both[1:], "long": both[1:],
             "forbidden-giants": both[1:], "causal-and-mask": both, "larger-changed-logits": both}  # fmt: skip
    found = by_function(text, names="all", only=[f"attention:values:{name}" for name in shown])
    assert {check.id.removeprefix("attention:values:"): check.diagnosis for check in found.checks} == shown

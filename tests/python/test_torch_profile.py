"""smelt.torch.profile: a PyTorch module's time, by its modules."""

import json

import pytest

torch = pytest.importorskip("torch")
smelt = pytest.importorskip("smelt")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU())
        self.second = torch.nn.Linear(1024, 16)

    def forward(self, x, scale):
        return self.second(self.first(x)) * scale


@pytest.fixture(scope="module")
def result():
    torch.manual_seed(0)
    block = Block().train()
    made = smelt.torch.profile(block, (torch.randn(64, 256), torch.ones(16)), iterations=3, tuning_level=0, optimize=False)
    assert block.training, "it is left as it was"
    return made


def test_time_is_given_by_the_modules_own_names(result):
    assert {"", "first.0", "second"} <= set(result.modules)
    assert result.modules["second"]["type"] == "Linear" and result.modules[""]["type"] == "Block"
    assert result.modules["first.0"]["total_us"] > 0
    assert result.modules["first"]["total_us"] >= result.modules["first.0"]["total_us"]
    assert result.modules[""]["total_us"] >= result.modules["first"]["total_us"] + result.modules["second"]["total_us"] - 1e-6
    assert result.modules["first.0"]["flops"] >= 2 * 64 * 256 * 1024


def test_the_result_is_a_profile_that_prints(result):
    assert result["format"] == "smelt.report" and result["after"]["steps"]
    assert "Time per module" in str(result)


def test_what_is_fused_across_modules_counts_for_the_one_around_them(result):
    said = "counts for the one that holds them all"
    assert said not in str(result), "no step stands for several"
    fused = smelt.torch.profile(Block().eval(), (torch.randn(64, 256), torch.ones(16)), iterations=3, tuning_level=0)
    assert said in str(fused) and fused.modules["first"]["total_us"] > 0


def test_inputs_may_be_named_and_the_model_kept(tmp_path):
    path, report = tmp_path / "block.onnx", tmp_path / "report.html"
    named = {"x": torch.randn(2, 256), "scale": torch.ones(16)}
    result = smelt.torch.profile(Block(), named, iterations=1, tuning_level=0, keep=path, report=report)
    assert [i.name for i in smelt.Session(path, tuning_level=0).get_inputs()] == ["x", "scale"]
    assert "Why slow, what next" in report.read_text() and json.dumps(result.modules)


def test_what_is_no_tensor_is_a_usage_error():
    with pytest.raises(smelt.UsageError, match="expected tensors, found int"):
        smelt.torch.profile(torch.nn.Linear(2, 2), (3,))

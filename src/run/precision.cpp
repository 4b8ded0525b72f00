#include "run/precision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"

namespace smelt::run {
namespace {

/// Inputs that ONNX types f32 whatever the others' type.
bool stays_f32(const Node& node, size_t input) { return node.is("Resize") && input >= 1; }

/// Operators with f32 in their definition (quantisation's scales, box selection), with a result type of their own, or whose
/// bodies are typed.
bool is_f32_only(const Node& node) {
  static constexpr std::array ops = {
      "NonMaxSuppression", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger",
      "MatMulInteger", "Range", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli",
      "EyeLike", "ConstantOfShape", "Constant", "DFT", "STFT", "MelWeightMatrix", "HannWindow", "HammingWindow", "BlackmanWindow", "Det",
      "TfIdfVectorizer", "StringConcat", "CumSum", "Scatter", "SequenceAt", "Optional"};
  const bool has_body = std::ranges::any_of(node.attrs, [](const auto& a) { return std::holds_alternative<GraphPtr>(a.second); });
  return has_body || !node.domain.empty() || std::ranges::find(ops, std::string_view(node.op)) != ops.end();
}

class Converter {
 public:
  Converter(Graph& g, DType to, const std::vector<std::string>& keep) : g_(g), to_(to), keep_(keep), matched_(keep.size(), false) {}

  int run() {
    const std::vector<NodeId> order = g_.topological();
    std::vector<NodeId> converted;
    for (NodeId n : order) {
      const bool kept = is_kept(g_.node(n));
      if (!kept && !is_f32_only(g_.node(n)) && touches_f32(g_.node(n))) converted.push_back(n);
    }
    for (size_t i = 0; i < keep_.size(); ++i) {
      if (!matched_[i]) throw Error(fmt::format("--keep-fp32={}: no node's name or scope matches", keep_[i]), "Names and scopes: smelt info MODEL --graph", ExitCode::usage);
    }
    for (NodeId n : converted) convert_outputs(n);
    std::vector<bool> reads_low(g_.node_count(), false);
    for (NodeId n : converted) reads_low[static_cast<size_t>(index(n))] = true;
    for (NodeId n : order) adapt_inputs(n, reads_low[static_cast<size_t>(index(n))]);
    return static_cast<int>(converted.size());
  }

 private:
  bool is_kept(const Node& node) {
    bool kept = false;
    for (size_t i = 0; i < keep_.size(); ++i) {
      bool here = matches(keep_[i], node.name);
      for (int32_t s : node.sources) {
        const SourceNode& source = g_.sources()[static_cast<size_t>(s)];
        here = here || matches(keep_[i], source.name) || std::ranges::any_of(source.scopes, [&](const auto& scope) { return matches(keep_[i], scope); });
      }
      if (here) matched_[i] = kept = true;
    }
    return kept;
  }

  bool touches_f32(const Node& node) const {
    const auto f32 = [&](ValueId v) { return v != ValueId::none && g_.value(v).type == DType::f32; };
    return std::ranges::any_of(node.inputs, f32) || std::ranges::any_of(node.outputs, f32);
  }

  void convert_outputs(NodeId n) {
    for (size_t i = 0; i < g_.node(n).outputs.size(); ++i) {
      const ValueId v = g_.node(n).outputs[i];
      if (v == ValueId::none || g_.value(v).type != DType::f32) continue;
      if (g_.node(n).is("Cast")) g_.edit(n).attrs["to"] = static_cast<int64_t>(to_);
      if (!g_.is_output(v)) {
        g_.set_type(v, to_);
        continue;
      }
      // The graph's output keeps its name and type, now made by a Cast of the converted value.
      const NodeId cast = g_.add_node(cast_node(ValueId::none, DType::f32));
      g_.steal_output(n, i, cast, 0);
      const ValueId low = g_.node(n).outputs[i];
      g_.set_type(low, to_);
      g_.set_inputs(cast, {low});
      g_.merge_sources(cast, n);
      forms_[{v, to_}] = low;
    }
  }

  void adapt_inputs(NodeId n, bool low) {
    for (size_t i = 0; i < g_.node(n).inputs.size(); ++i) {
      const ValueId v = g_.node(n).inputs[i];
      if (v == ValueId::none) continue;
      const DType type = g_.value(v).type, wanted = low && !stays_f32(g_.node(n), i) ? to_ : DType::f32;
      if ((type != DType::f32 && type != to_) || type == wanted) continue;
      if (type == to_ && !made_low(v)) continue;   // a model that mixes types already
      g_.set_input(n, i, form(v, wanted));
    }
  }

  bool made_low(ValueId v) const { return g_.value(v).producer != NodeId::none && g_.value(v).type == to_; }

  ValueId form(ValueId v, DType type) {
    const auto known = forms_.find({v, type});
    if (known != forms_.end()) return known->second;
    const Value& value = g_.value(v);
    if (value.is_constant()) return forms_[{v, type}] = g_.add_constant(value.name + "_" + std::string(name(type)), narrow(value.constant, type));
    Node cast = cast_node(v, type);
    if (value.producer != NodeId::none) cast.sources = g_.node(value.producer).sources;
    const std::optional<SymShape> shape = value.shape;
    cast.outputs = {g_.add_value(value.name + "_" + std::string(name(type)), type, shape)};
    const ValueId out = cast.outputs[0];
    g_.add_node(std::move(cast));
    return forms_[{v, type}] = out;
  }

  Node cast_node(ValueId v, DType type) const {
    Node node;
    node.op = "Cast";
    node.name = v == ValueId::none ? "" : g_.value(v).name + "_cast";
    node.opset = opset();
    node.attrs["to"] = static_cast<int64_t>(type);
    if (v != ValueId::none) node.inputs = {v};
    return node;
  }

  int opset() const {
    for (size_t i = 0; i < g_.node_count(); ++i) {
      const Node& n = g_.node(NodeId{static_cast<int32_t>(i)});
      if (n.alive && n.domain.empty()) return n.opset;
    }
    return 0;
  }

  static Tensor narrow(const Tensor& t, DType type) {
    if (type != DType::f16) return t.cast(type);
    constexpr float largest = 65504;
    Tensor limited = t.clone();
    for (float& x : limited.span<float>()) {
      if (std::isfinite(x)) x = std::clamp(x, -largest, largest);
    }
    return limited.cast(type);
  }

  Graph& g_;
  DType to_;
  const std::vector<std::string>& keep_;
  std::vector<bool> matched_;
  std::map<std::pair<ValueId, DType>, ValueId> forms_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] != '*' && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

int convert_precision(Graph& g, std::string_view precision, const std::vector<std::string>& keep) {
  if (precision.empty() || precision == "tf32" || precision == "fp32") return 0;
  if (precision != "fp16" && precision != "bf16") fail_usage("precision '{}' is not one of fp16, bf16, tf32, fp32", precision);
  return Converter(g, precision == "fp16" ? DType::f16 : DType::bf16, keep).run();
}

}  // namespace smelt::run

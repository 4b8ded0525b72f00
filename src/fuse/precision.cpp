#include "fuse/precision.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "fuse/name_patterns.h"
#include "fuse/spelled_out.h"
#include "import/export.h"
#include "import/import.h"
#include "import/schema.h"
#include "import/tensors.h"
#include "ops/core/facts.h"

namespace smelt::fuse {

namespace {

class Converter {
 public:
  Converter(Graph& g, DType to, bool structure_only)
      : g_(g), to_(to), structure_only_(structure_only), onnx_type_(to == DType::f16 ? "tensor(float16)" : "tensor(bfloat16)") {}

  PrecisionSummary run(const std::vector<std::string>& patterns, const Options* fusing) {
    check(patterns);
    if (fusing) summary_.recognised = recognise_spelled_out(g_, *fusing);
    for (const std::string& pattern : patterns)
      for (NodeId id : g_.topological())
        if (is_called(g_, g_.node(id), pattern)) kept_.insert(id);
    for (NodeId id : g_.topological()) convert(id);
    const std::vector<ValueId> outputs = g_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (lowered_.contains(outputs[i])) give_back(i, outputs[i]);
    return summary_;
  }

 private:
  void check(const std::vector<std::string>& patterns) const {
    const std::vector<NodeId> nodes = g_.topological();
    for (const std::string& pattern : patterns)
      if (std::ranges::none_of(nodes, [&](NodeId id) { return is_called(g_, g_.node(id), pattern); }))
        fail_usage("--keep-fp32='{}' matches no node and no module scope of the graph", pattern);
  }

  /// Counts and positions, whose values 16 bits may not tell apart.
  bool is_cast_of_integers(const Node& n) const {
    if (!n.is("Cast") && !n.is("CastLike")) return false;
    const DType from = g_.value(n.in(0)).type;
    return is_integer(from) && bits(from) > 8;
  }

  /// Whether only nodes that stay fp32 read v, directly or through nodes that move or scale it.
  bool ends_in_fp32(ValueId v) const {
    std::vector<ValueId> left{v};
    std::set<ValueId> seen;
    while (!left.empty()) {
      const ValueId at = left.back();
      left.pop_back();
      if (!seen.insert(at).second) continue;
      if (g_.is_output(at) || g_.readers(at).empty()) return false;
      for (const Use& u : g_.readers(at)) {
        const Node& reader = g_.node(u.node);
        const ops::Facts& f = ops::facts(reader);
        if (kept_.contains(u.node) || f.autocast == ops::Autocast::fp32) continue;
        if (f.elements != ops::Elements::in_order && f.elements != ops::Elements::moved && !reader.is("Mul")) return false;
        for (ValueId out : reader.outputs)
          if (out != ValueId::none) left.push_back(out);
      }
    }
    return true;
  }

  // Which inputs and outputs of a node take the new type; both empty: the node stays.
  struct Plan {
    std::vector<size_t> inputs, outputs;
  };

  bool is_f32(ValueId v) const { return v != ValueId::none && (g_.value(v).type == DType::f32 || lowered_.contains(v)); }

  Plan plan(NodeId id) const {
    const Node& n = g_.node(id);
    Plan p;
    if (n.domain == microsoft_domain) {
      if (ops::facts(n).autocast == ops::Autocast::no_form) return p;
      for (size_t i = 0; i < n.inputs.size(); ++i)
        if (is_f32(n.inputs[i])) p.inputs.push_back(i);
      for (size_t i = 0; i < n.outputs.size(); ++i)  // 1 and 2 of the normalisations are their statistics, in fp32
        if (is_f32(n.outputs[i]) && i != 1 && i != 2) p.outputs.push_back(i);
      return p;
    }
    if (n.domain == smelt_domain) return plan_fused(n);
    if (n.domain != onnx_domain) return p;
    const auto* schema = importer::find_schema(n.op, static_cast<int>(newest_opset()), n.domain);
    const auto* in_plans = importer::find_schema(n.op, static_cast<int>(newest_plan_opset), n.domain);
    if (!schema) return p;
    // The type variables that fp32 inputs bind and that may be the new type.
    std::set<std::string> variables;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const auto* formal = importer::formal(schema->inputs(), static_cast<int>(i));
      if (!formal || !is_f32(n.inputs[i])) continue;
      // By the opset of plans too, which may be older.
      const auto* written = in_plans ? importer::formal(in_plans->inputs(), static_cast<int>(i)) : nullptr;
      const bool allowed = takes(*formal) && written && takes(*written);
      if (!allowed) continue;  // fp32 only, such as Resize's scales
      p.inputs.push_back(i);
      variables.insert(formal->GetTypeStr());
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const auto* formal = importer::formal(schema->outputs(), static_cast<int>(i));
      if (formal && is_f32(n.outputs[i]) && variables.contains(formal->GetTypeStr())) p.outputs.push_back(i);
    }
    // Their output's type is an attribute.
    if ((n.op == "Cast" && g_.value(n.out()).type == DType::f32) ||
        (n.op == "ConstantOfShape" && g_.value(n.out()).type == DType::f32)) {
      p.inputs.clear();
      p.outputs = {0};
    }
    return p;
  }

  /// Of a node that recognise_spelled_out() made: it accumulates in f32, whatever its type.
  Plan plan_fused(const Node& n) const {
    const bool same_throughout = n.program ? n.is("Pointwise", smelt_domain) : n.is("Norm", smelt_domain);
    const auto other = [&](ValueId v) { return v != ValueId::none && !is_f32(v); };
    if (!same_throughout || std::ranges::any_of(n.inputs, other) || std::ranges::any_of(n.outputs, other)) return {};
    Plan p;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (is_f32(n.inputs[i])) p.inputs.push_back(i);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (is_f32(n.outputs[i])) p.outputs.push_back(i);
    return p;
  }

  /// The program between values of the new type.
  expr::Program narrowed(const expr::Program& wide) const {
    expr::Program p;
    std::vector<expr::Ref> in;
    for (int i = 0; i < wide.input_count(); ++i) in.push_back(p.input(to_));
    for (expr::Ref& r : in) r = p.cast(r, DType::f32);
    for (const expr::Ref r : p.splice(wide, in)) p.output(p.cast(r, to_));
    return p;
  }

  bool takes(const onnx::OpSchema::FormalParameter& formal) const {
    const auto& types = formal.GetTypes();
    return std::any_of(types.begin(), types.end(), [&](const auto* t) { return *t == onnx_type_; });
  }

  bool stays(NodeId id) const {
    const Node& n = g_.node(id);
    const ops::Facts& f = ops::facts(n);
    if (kept_.contains(id) || f.autocast == ops::Autocast::fp32 || is_cast_of_integers(n)) return true;
    for (const auto& [name, a] : n.attrs)
      if (std::holds_alternative<GraphPtr>(a)) return true;
    // These take most of the time, so they convert even if all their inputs stay fp32.
    if (f.contracts && !ends_in_fp32(n.out())) return false;
    // Between nodes that stay (the + epsilon between a mean and its root) converting would only round twice.
    bool any = false;
    for (ValueId v : n.inputs) {
      if (v == ValueId::none || g_.value(v).is_constant()) continue;
      if (lowered_.contains(v) || (g_.value(v).type == DType::f32 && !stayed_.contains(g_.value(v).producer))) return false;
      any = any || g_.value(v).type == DType::f32;
    }
    return any;
  }

  void convert(NodeId id) {
    const Plan p = stays(id) ? Plan{} : plan(id);
    const Node n = g_.node(id);
    const bool touches = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return is_f32(v); }) ||
                         std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return is_f32(v); });
    if (p.inputs.empty() && p.outputs.empty()) {
      if (!touches) return;
      stayed_.insert(id);
      ++summary_.kept;
    } else {
      ++summary_.converted;
    }
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = n.inputs[i];
      const bool low = std::find(p.inputs.begin(), p.inputs.end(), i) != p.inputs.end();
      if (low && !lowered_.contains(v)) {
        g_.set_input(id, i, as(v, to_, id));
      } else if (!low && lowered_.contains(v) && n.op != "Cast") {  // a Cast reads either
        g_.set_input(id, i, as(v, DType::f32, id));
      }
    }
    for (size_t i : p.outputs) {
      g_.set_type(n.outputs[i], to_);
      lowered_.insert(n.outputs[i]);
    }
    if (p.outputs.empty()) return;
    if (n.program) g_.edit(id).program = narrowed(*n.program);
    if (n.op == "Cast") g_.edit(id).attrs["to"] = static_cast<int64_t>(to_);
    if (n.op == "ConstantOfShape") {
      const Tensor value = n.get_tensor("value");
      g_.edit(id).attrs["value"] = narrow(value.valid() ? value : Tensor::zeros(DType::f32, {1}));
    }
  }

  // v in another type: a converted constant, or the output of a Cast before `reader`. All readers share it.
  ValueId as(ValueId v, DType type, NodeId reader) {
    const auto [it, fresh] = converted_.insert({{v, type}, ValueId::none});
    if (!fresh) return it->second;
    const Value value = g_.value(v);
    const std::string base = value.name + "_" + std::string(name(type));
    if (value.is_constant()) return it->second = g_.add_constant(base, narrow(value.constant));
    it->second = g_.add_value(base, type, value.shape);
    cast(v, it->second, type, reader);
    return it->second;
  }

  void cast(ValueId from, ValueId to, DType type, NodeId beside) {
    Node n;
    n.op = "Cast";
    n.name = "Cast_" + g_.value(to).name;
    n.opset = static_cast<int>(newest_opset());
    n.inputs = {from};
    n.outputs = {to};
    n.attrs["to"] = static_cast<int64_t>(type);
    if (beside != NodeId::none) {
      n.sources = g_.node(beside).sources;
      n.order = g_.node(beside).order;
    }
    g_.add_node(std::move(n));
    ++summary_.casts;
  }

  // The graph's output keeps its name and type.
  void give_back(size_t i, ValueId v) {
    const std::string out = g_.value(v).name;
    g_.rename(v, out + "_" + std::string(name(to_)));
    const ValueId f32 = g_.add_value(out, DType::f32, g_.value(v).shape);
    cast(v, f32, DType::f32, g_.value(v).producer);
    g_.edit(g_.value(f32).producer).order = 0;
    g_.set_output(i, f32);
  }

  // Rounded, but finite where it was finite (a mask's -3.4e38) and not zero where it was not (an epsilon of 1e-12).
  Tensor narrow(const Tensor& t) const {
    if (structure_only_ && t.nbytes() > large_bytes) return importer::zeros_without_memory(to_, t.shape(), "a constant");
    Tensor out = t.cast(to_);
    auto* bits = static_cast<uint16_t*>(out.raw());
    const auto wide = t.span<float>();
    const uint16_t infinity = to_ == DType::f16 ? 0x7c00 : 0x7f80;
    for (int64_t i = 0; i < out.size(); ++i) {
      const uint16_t sign = bits[i] & 0x8000, magnitude = bits[i] & 0x7fff;
      if (magnitude == infinity && std::isfinite(wide[static_cast<size_t>(i)]))
        bits[i] = static_cast<uint16_t>(sign | (infinity - 1));
      if (magnitude == 0 && wide[static_cast<size_t>(i)] != 0) bits[i] = static_cast<uint16_t>(sign | 1);
    }
    return out;
  }

  static constexpr int64_t large_bytes = 1 << 20;  // beyond what rewrites read of constants' values

  Graph& g_;
  DType to_;
  bool structure_only_;
  std::string onnx_type_;
  std::set<NodeId> kept_, stayed_;
  std::set<ValueId> lowered_;  // values that were f32 and are the new type now
  std::map<std::pair<ValueId, DType>, ValueId> converted_;
  PrecisionSummary summary_;
};

}  // namespace

PrecisionSummary convert_precision(Graph& g, std::string_view precision, const std::vector<std::string>& keep_fp32,
                                   const Converting& how) {
  PrecisionSummary summary;
  if (precision == "fp16" || precision == "bf16") {
    summary = Converter(g, precision == "fp16" ? DType::f16 : DType::bf16, how.structure_only).run(keep_fp32, how.fusing);
  } else if (precision.empty() || precision == "fp32") {
    return summary;
  } else if (precision != "tf32") {
    fail_usage("--precision={}: expected fp16, bf16 or tf32", precision);
  }
  g.model.metadata["smelt.precision"] = std::string(precision);
  return summary;
}

}  // namespace smelt::fuse

// The types and shapes that a plan carries, taken as they are instead of inferred anew: whoever wrote the plan had inferred them.
// Each node's are held to what ONNX's rule says of that node alone, so that a file whose hash is right and whose types are made
// up says no more than one that is inferred: rewrites read types and ranks without a look.
#include <onnx/defs/shape_inference.h>

#include <deque>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "graph/fused.h"
#include "import/schema.h"
#include "import/stages.h"

namespace smelt::importer {

namespace {

using Type = onnx::TypeProto;

/// Types and constants by name, of a graph or of a function's body, within those of the graph around it.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string_view, Type*> types;
  std::unordered_map<std::string_view, const onnx::TensorProto*> constants;
  std::deque<Type> own;  // types that the file has no entry for: of constants, and of values in function bodies

  Type* type(std::string_view name) const {
    const auto at = types.find(name);
    return at != types.end() ? at->second : outer ? outer->type(name) : nullptr;
  }
  /// Null for a constant whose bytes are elsewhere, too.
  const onnx::TensorProto* constant(std::string_view name) const {
    const auto at = constants.find(name);
    if (at != constants.end()) return at->second;
    return outer && !types.contains(name) ? outer->constant(name) : nullptr;
  }
  void add_constant(const std::string& name, const onnx::TensorProto& t) {
    auto& tensor = *own.emplace_back().mutable_tensor_type();
    tensor.set_elem_type(t.data_type());
    tensor.mutable_shape();
    for (const int64_t d : t.dims()) tensor.mutable_shape()->add_dim()->set_dim_value(d);
    types[name] = &own.back();
    if (t.data_location() != onnx::TensorProto::EXTERNAL) constants[name] = &t;
  }
};

/// What a body gives: as its graph says, once it takes what it is given.
class Body final : public onnx::GraphInferencer {
 public:
  explicit Body(const onnx::GraphProto& g) : g_(g) {}
  std::vector<const Type*> doInferencing(const std::vector<const Type*>& in,
                                         const std::vector<const onnx::TensorProto*>&) override {
    if (static_cast<int>(in.size()) != g_.input_size()) fail("a body takes {} inputs, not {}", g_.input_size(), in.size());
    for (int i = 0; i < g_.input_size(); ++i) {
      const Type* given = in[static_cast<size_t>(i)];
      if (given && !agree(*given, g_.input(i).type())) fail("a body's input {} is given another type", i);
    }
    std::vector<const Type*> out;
    for (const auto& v : g_.output()) out.push_back(&v.type());
    return out;
  }

  /// Whether a type's claims may be true where the other's are: element type, rank, and the extents that both know.
  static bool agree(const Type& a, const Type& b) {
    if (a.value_case() == Type::VALUE_NOT_SET) return true;
    if (!a.has_tensor_type() || !b.has_tensor_type()) return false;
    const auto &x = a.tensor_type(), &y = b.tensor_type();
    if (x.elem_type() != 0 && x.elem_type() != y.elem_type()) return false;
    if (!x.has_shape() || !y.has_shape()) return true;
    if (x.shape().dim_size() != y.shape().dim_size()) return false;
    for (int i = 0; i < x.shape().dim_size(); ++i) {
      const auto &d = x.shape().dim(i), &e = y.shape().dim(i);
      if (d.has_dim_value() && e.has_dim_value() && d.dim_value() != e.dim_value()) return false;
    }
    return true;
  }

 private:
  const onnx::GraphProto& g_;
};

/// One node as a rule sees it.
class NodeContext final : public onnx::InferenceContext {
 public:
  NodeContext(const onnx::NodeProto& node, const Scope& scope, std::vector<Type>& outputs)
      : node_(node), scope_(scope), outputs_(outputs) {
    outputs_.resize(std::max(outputs_.size(), static_cast<size_t>(node.output_size())));
    for (int i = 0; i < node.output_size(); ++i) outputs_[static_cast<size_t>(i)].Clear();
    for (const auto& name : node.input()) {
      types_.push_back(name.empty() ? nullptr : scope.type(name));
      if (!name.empty() && !types_.back()) fail("'{}' has no type", name);
    }
  }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override { return find_attribute(node_, name); }
  size_t getNumInputs() const override { return types_.size(); }
  const Type* getInputType(size_t i) const override { return i < types_.size() ? types_[i] : nullptr; }
  const onnx::TensorProto* getInputData(size_t i) const override {
    return i < types_.size() && types_[i] ? scope_.constant(node_.input(static_cast<int>(i))) : nullptr;
  }
  size_t getNumOutputs() const override { return static_cast<size_t>(node_.output_size()); }
  Type* getOutputType(size_t i) override { return i < getNumOutputs() ? &outputs_[i] : nullptr; }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    const auto* a = find_attribute(node_, name);
    if (!a || !a->has_g()) fail("attribute '{}' is no graph", name);
    return &bodies_.emplace_back(a->g());
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t) const override { return nullptr; }

 private:
  const onnx::NodeProto& node_;
  const Scope& scope_;
  std::vector<const Type*> types_;
  std::vector<Type>& outputs_;
  std::deque<Body> bodies_;
};

class Checker {
 public:
  Checker(onnx::ModelProto& model, const ImportOptions& options) : model_(model), options_(options) {
    for (const auto& o : model.opset_import()) versions_[o.domain()] = static_cast<int>(o.version());
    for (const auto& f : model.functions())
      if (f.domain() == smelt_domain) functions_[f.name() + "\n" + f.overload()] = &f;
  }

  /// Throws where a type is missing, or is not what a rule says.
  void graph(onnx::GraphProto& g, const Scope* outer) {
    Scope scope{outer, {}, {}, {}};
    for (auto* values : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
      for (auto& v : *values) scope.types[v.name()] = v.mutable_type();
    for (const auto& t : g.initializer()) scope.add_constant(t.name(), t);
    for (auto& n : *g.mutable_node()) {
      for (auto& a : *n.mutable_attribute())
        if (a.has_g()) graph(*a.mutable_g(), &scope);
      if (is_constant(n, scope)) continue;
      const auto* schema = schema_of(n);
      std::span<const Type> found;
      if (schema)
        found = by_schema(n, *schema, scope);
      else if (is_fused_call(model_, n, options_))
        found = by_function(n, scope);
      for (int i = 0; i < n.output_size(); ++i) {
        if (n.output(i).empty()) continue;
        Type* type = scope.type(n.output(i));
        if (!type || !type->has_tensor_type() || type->tensor_type().elem_type() == 0) fail("'{}' has no type", n.output(i));
        if (static_cast<size_t>(i) < found.size()) take(found[static_cast<size_t>(i)], *type, n.output(i));
      }
    }
  }

 private:
  static bool is_constant(const onnx::NodeProto& n, Scope& scope) {
    if (n.op_type() != "Constant" || !n.domain().empty()) return false;
    const auto* value = find_attribute(n, "value");
    if (!value || !value->has_t() || n.output_size() != 1) return false;
    scope.add_constant(n.output(0), value->t());
    return true;
  }

  const onnx::OpSchema* schema_of(const onnx::NodeProto& n) {
    const auto version = versions_.find(n.domain());
    if (version == versions_.end()) fail("domain '{}' is not imported", n.domain());
    const auto [at, fresh] = schemas_.try_emplace(n.domain() + ":" + n.op_type());
    if (fresh) at->second = guarded_schemas().GetSchema(n.op_type(), version->second, n.domain());
    return at->second;
  }

  std::span<const Type> by_schema(const onnx::NodeProto& n, const onnx::OpSchema& schema, const Scope& scope) {
    NodeContext context(n, scope, outputs_);
    if (schema.has_type_and_shape_inference_function())
      schema.GetTypeAndShapeInferenceFunction()(context);
    else if (schema.HasFunction())
      fail("{} has no rule but its function's body", n.op_type());
    check_types(schema, context);
    return {outputs_.data(), context.getNumOutputs()};
  }

  /// The operator's constraints on element types, once for each set of them.
  void check_types(const onnx::OpSchema& schema, NodeContext& context) {
    std::vector<int64_t> key{reinterpret_cast<int64_t>(&schema), static_cast<int64_t>(context.getNumInputs())};
    const auto add = [&](const Type* t) { key.push_back(!t ? -1 : t->has_tensor_type() ? t->tensor_type().elem_type() : 0); };
    bool all = true;
    for (size_t i = 0; i < context.getNumInputs(); ++i) add(context.getInputType(i));
    for (size_t i = 0; i < context.getNumOutputs(); ++i) {
      add(context.getOutputType(i));
      all = all && key.back() > 0;
    }
    if (all && checked_.contains(key)) return;
    schema.CheckInputOutputType(context);
    if (all) checked_.insert(std::move(key));
  }

  /// What the body of a fused call's function gives, once for each set of inputs.
  std::span<const Type> by_function(const onnx::NodeProto& call, const Scope& scope) {
    std::string key = fused_function(call);
    const auto function = functions_.find(key);
    if (function == functions_.end()) fail("function '{}' is not there", call.op_type());
    const onnx::FunctionProto& f = *function->second;
    if (call.input_size() > f.input_size() || call.output_size() > f.output_size())
      fail("'{}' is called with too much", f.name());
    Scope body;
    for (int i = 0; i < call.input_size(); ++i) {
      Type* type = call.input(i).empty() ? nullptr : scope.type(call.input(i));
      if (!call.input(i).empty() && !type) fail("'{}' has no type", call.input(i));
      if (type) body.types[f.input(i)] = type;
      key += type ? type->SerializeAsString() + '\n' : "-\n";
      if (const auto* constant = type ? scope.constant(call.input(i)) : nullptr;
          constant && constant->data_type() == onnx::TensorProto::INT64)
        body.constants[f.input(i)] = constant, key += constant->SerializeAsString();
    }
    const auto known = of_functions_.find(key);
    if (known != of_functions_.end()) return known->second;
    for (const auto& n : f.node()) {
      for (const auto& a : n.attribute())
        if (!a.ref_attr_name().empty() || a.has_g()) fail("'{}' is no function of a plan's", f.name());
      if (is_constant(n, body)) continue;
      const auto* schema = schema_of(n);
      if (!schema) fail("{} is not known", n.op_type());
      const std::span<const Type> found = by_schema(n, *schema, body);
      for (int i = 0; i < n.output_size(); ++i)
        if (!n.output(i).empty()) body.types[n.output(i)] = &body.own.emplace_back(found[static_cast<size_t>(i)]);
    }
    std::vector<Type>& types = of_functions_[key];
    for (const auto& name : f.output()) {
      const Type* type = body.type(name);
      types.push_back(type ? *type : Type());
    }
    return types;
  }

  /// The file's type, with what the rule knows more of.
  static void take(const Type& found, Type& type, const std::string& name) {
    if (!Body::agree(found, type)) fail("'{}' is {}, not {}", name, describe(type), describe(found));
    if (!found.has_tensor_type() || !found.tensor_type().has_shape()) return;
    auto& to = *type.mutable_tensor_type();
    const auto& from = found.tensor_type().shape();
    if (!to.has_shape()) *to.mutable_shape() = from;
    for (int i = 0; i < from.dim_size(); ++i)
      if (from.dim(i).has_dim_value() && !to.shape().dim(i).has_dim_value()) *to.mutable_shape()->mutable_dim(i) = from.dim(i);
  }

  onnx::ModelProto& model_;
  const ImportOptions& options_;
  std::unordered_map<std::string, int> versions_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_map<std::string, const onnx::OpSchema*> schemas_;
  std::set<std::vector<int64_t>> checked_;
  std::unordered_map<std::string, std::vector<Type>> of_functions_;
  std::vector<Type> outputs_;  // of the node that is looked at
};

}  // namespace

bool carries_types(Loaded& model, const ImportOptions& options) {
  try {
    Checker(model.proto, options).graph(*model.proto.mutable_graph(), nullptr);
    info("{}: types and shapes are those that the plan carries", model.where);
    return true;
  } catch (const std::exception& e) {
    info("{}: the plan's types are inferred again: {}", model.where, one_line(e.what()));
    return false;
  }
}

}  // namespace smelt::importer

// Nodes of older opsets rewritten to what the newest opset would say.
//
// ONNX has a version converter. It is not used: it goes through an IR of its own that drops every node's metadata and the
// model's functions, it needs static shapes for Softmax, its Scan 8 → 9 changes the types of the inputs but not the
// values (batched data would be scanned over the wrong axis), and it has no adapter for RoiAlign 16 and DFT 20.
// Between opsets 6 and 28 only the operators of upgrade_rules() changed in a way that matters to their reader; the
// rules work node by node, so names, scopes, subgraphs and functions stay as they are.
#include "import/upgrade.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "import/tensors.h"

namespace smelt::importer {

onnx::AttributeProto attribute(const char* name, int64_t value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
  return a;
}

onnx::AttributeProto attribute(const char* name, const std::string& value) {
  onnx::AttributeProto a;
  a.set_name(name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
  return a;
}

int64_t Upgrade::integer(const char* name, int64_t otherwise) const {
  const auto* a = find_attribute(node, name);
  return a ? a->i() : otherwise;
}

float Upgrade::number(const char* name, float otherwise) const {
  const auto* a = find_attribute(node, name);
  return a ? a->f() : otherwise;
}

std::optional<std::vector<int64_t>> Upgrade::integers(const char* name) const {
  const auto* a = find_attribute(node, name);
  if (!a) return {};
  return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

void Upgrade::remove(const char* name) {
  auto& all = *node.mutable_attribute();
  for (int i = all.size() - 1; i >= 0; --i)
    if (all[i].name() == name) all.DeleteSubrange(i, 1);
}

void Upgrade::set(const char* name, int64_t value) {
  remove(name);
  *node.add_attribute() = attribute(name, value);
}

void Upgrade::set(const char* name, const std::string& value) {
  remove(name);
  *node.add_attribute() = attribute(name, value);
}

void Upgrade::integers_to_input(const char* name, int at) {
  if (const auto values = integers(name)) set_input(at, constant(*values));
  remove(name);
}

const std::string& Upgrade::input(int i) const {
  static const std::string none;
  return i < node.input_size() ? node.input(i) : none;
}

void Upgrade::set_input(int i, const std::string& value) {
  while (node.input_size() <= i) node.add_input("");
  node.set_input(i, value);
}

int32_t Upgrade::element_type(int i) const {
  const auto* t = type(i);
  const int32_t element = t && t->has_tensor_type() ? t->tensor_type().elem_type() : 0;
  return element ? element : onnx::TensorProto::FLOAT;
}

onnx::NodeProto Upgrade::make(const std::string& op, const std::vector<std::string>& inputs,
                              const std::vector<onnx::AttributeProto>& attributes) {
  onnx::NodeProto n;
  n.set_op_type(op);
  n.set_name(node.name() + "/" + op);
  for (const auto& in : inputs) n.add_input(in);
  for (const auto& a : attributes) *n.add_attribute() = a;
  if (const auto* source = find_metadata(node, source_key)) set_metadata(n, source_key, *source);
  return n;
}

std::string Upgrade::before(const std::string& op, const std::vector<std::string>& inputs,
                            const std::vector<onnx::AttributeProto>& attributes, const std::string& domain) {
  std::string output = fresh(op);
  before_as(op, inputs, {output}, attributes);
  before_.back().set_domain(domain);
  return output;
}

void Upgrade::before_as(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::vector<onnx::AttributeProto>& attributes) {
  onnx::NodeProto n = make(op, inputs, attributes);
  for (const auto& o : outputs) n.add_output(o);
  before_.push_back(std::move(n));
}

void Upgrade::after(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                    const std::vector<onnx::AttributeProto>& attributes) {
  onnx::NodeProto n = make(op, inputs, attributes);
  n.add_output(output);
  after_.push_back(std::move(n));
}

std::string Upgrade::detach_output(int i) {
  node.set_output(i, fresh("output"));
  return node.output(i);
}

static onnx::AttributeProto value_attribute(const Tensor& t) {
  onnx::AttributeProto a;
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  write_tensor(t, *a.mutable_t());
  return a;
}

std::string Upgrade::constant(const std::vector<int64_t>& values) {
  return before("Constant", {}, {value_attribute(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values))});
}

std::string Upgrade::scalar(int32_t element_type, double value) {
  const DType type = dtype_of_onnx(element_type, "node " + describe(node));
  return before("Constant", {}, {value_attribute(Tensor::scalar<double>(value).cast(type))});
}

std::vector<onnx::NodeProto> Upgrade::nodes() && {
  std::vector<onnx::NodeProto> out = std::move(before_);
  out.push_back(std::move(node));
  out.insert(out.end(), after_.begin(), after_.end());
  return out;
}

bool is_replaced(const std::string& op) { return op == "Upsample" || op == "Scatter" || op == "GroupNormalization"; }

static bool changed_since(const onnx::NodeProto& n, int64_t from) {
  const auto rules = upgrade_rules();
  return n.domain().empty() &&
         std::any_of(rules.begin(), rules.end(), [&](const UpgradeRule& r) { return r.op == n.op_type() && from < r.version; });
}

/// The nodes that say in the newest opset what one node of opset `from` says.
static std::vector<onnx::NodeProto> upgraded(onnx::NodeProto n, int64_t from, const TypeOf& type_of, Names& names) {
  if (!changed_since(n, from)) return {std::move(n)};
  Upgrade up(std::move(n), type_of, names);
  for (const auto& rule : upgrade_rules())
    if (rule.op == up.node.op_type() && from < rule.version) rule.apply(up);
  return std::move(up).nodes();
}

std::vector<onnx::NodeProto> upgrade_nodes(std::vector<onnx::NodeProto> nodes, int64_t from, const TypeOf& type_of,
                                           Names& names) {
  std::vector<onnx::NodeProto> out;
  for (auto& n : nodes)
    for (auto& u : upgraded(std::move(n), from, type_of, names)) out.push_back(std::move(u));
  return out;
}

bool needs_upgrade(onnx::ModelProto& model) {
  const int64_t from = opset_of(model);
  bool any = false;
  for_each_graph(*model.mutable_graph(), [&](onnx::GraphProto& g) {
    for (const auto& n : g.node()) any = any || changed_since(n, from);
  });
  return any;
}

namespace {

/// The types of a graph's own values, by name.
class Types {
 public:
  explicit Types(const onnx::GraphProto& g) {
    for (const auto& t : g.initializer()) {
      auto* tensor = of_initializers_.emplace_back().mutable_tensor_type();
      tensor->set_elem_type(t.data_type());
      tensor->mutable_shape();
      for (int64_t d : t.dims()) tensor->mutable_shape()->add_dim()->set_dim_value(d);
      types_[t.name()] = &of_initializers_.back();
    }
    for (const auto& v : g.value_info()) types_[v.name()] = &v.type();
    for (const auto& v : g.input()) types_[v.name()] = &v.type();
    for (const auto& v : g.output()) types_[v.name()] = &v.type();
  }

  const onnx::TypeProto* find(const std::string& name) const {
    const auto it = types_.find(name);
    return it == types_.end() ? nullptr : it->second;
  }

 private:
  std::map<std::string_view, const onnx::TypeProto*> types_;
  std::deque<onnx::TypeProto> of_initializers_;
};

}  // namespace

void rewrite_nodes(onnx::GraphProto& g, const TypeOf& outer, const IsMeant& is_meant, const RewriteNode& rewrite) {
  std::optional<Types> types;  // few rules ask
  const TypeOf type_of = [&](const std::string& name) {
    if (!types) types.emplace(g);
    const onnx::TypeProto* own = types->find(name);
    return own ? own : outer(name);
  };
  NodesBeside given(g);
  (*given).Swap(g.mutable_node());
  // From its end, where a list gives nodes away without a copy.
  for (int i = 0, k = (*given).size() - 1; i < k; ++i, --k) (*given).SwapElements(i, k);
  while (!(*given).empty()) {
    onnx::NodeProto& n = *(*given).rbegin();
    for (auto& a : *n.mutable_attribute()) {
      if (a.has_g()) rewrite_nodes(*a.mutable_g(), type_of, is_meant, rewrite);
      for (auto& sub : *a.mutable_graphs()) rewrite_nodes(sub, type_of, is_meant, rewrite);
    }
    if (!is_meant(n)) {
      g.mutable_node()->UnsafeArenaAddAllocated((*given).UnsafeArenaReleaseLast());
      continue;
    }
    for (auto& r : rewrite(std::move(n), type_of)) *g.add_node() = std::move(r);
    (*given).RemoveLast();
  }
}

void upgrade(Loaded& model) {
  auto& proto = model.proto;
  const int64_t from = opset_of(proto);
  if (from > 0 && needs_upgrade(proto)) {
    Names names(proto);
    rewrite_nodes(
        *proto.mutable_graph(), [](const std::string&) { return nullptr; },
        [&](const onnx::NodeProto& n) { return changed_since(n, from); },
        [&](onnx::NodeProto n, const TypeOf& type_of) { return upgraded(std::move(n), from, type_of, names); });
  }
  bool imported = false;
  for (auto& o : *proto.mutable_opset_import()) {
    if (!o.domain().empty()) continue;
    o.set_version(newest_opset());
    imported = true;
  }
  if (!imported) proto.add_opset_import()->set_version(newest_opset());
}

}  // namespace smelt::importer

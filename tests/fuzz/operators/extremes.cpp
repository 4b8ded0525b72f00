#include "fuzz/operators/extremes.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"

namespace smelt::fuzz {
namespace {

constexpr int64_t most_of_a_list = 8;  // elements of an input that may say an extent, a count or a factor for each axis
constexpr int most_nodes = 3;          // the expanded functions among ONNX's cases have hundreds
constexpr size_t most_for_threes = 8;  // numbers of a case of which three are changed together

/// Changes one number of a case, or all of a list.
using Number = std::function<void(OperatorCase&, int64_t)>;

/// Of a negative value the reciprocal: factors close to 0 ask for as much as large ones.
double real(int64_t value) { return value < 0 ? -1 / static_cast<double>(value) : static_cast<double>(value); }

onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name) {
  for (auto& a : *node.mutable_attribute())
    if (a.name() == name) return a;
  node.add_attribute()->set_name(name);
  return *node.mutable_attribute(node.attribute_size() - 1);
}

Number of_attribute(int node, const std::string& name, onnx::AttributeProto::AttributeType type, size_t length, bool last) {
  return [=](OperatorCase& c, int64_t value) {
    onnx::AttributeProto& a = attribute(*c.model.mutable_graph()->mutable_node(node), name);
    a.set_type(type);
    if (type == onnx::AttributeProto::INT) return a.set_i(value);
    if (type == onnx::AttributeProto::FLOAT) return a.set_f(static_cast<float>(real(value)));
    if (a.ints_size() == 0)
      for (size_t i = 0; i < length; ++i) a.add_ints(name == "pads" ? 0 : 1);
    for (int i = last ? a.ints_size() - 1 : 0; i < a.ints_size(); ++i) a.set_ints(i, value);
  };
}

Number of_feed(size_t feed, bool last) {
  return [=](OperatorCase& c, int64_t value) {
    Tensor& t = c.feeds[feed].tensor;
    const size_t begin = last ? static_cast<size_t>(t.size()) - 1 : 0;
    if (is_float(t.type())) {
      std::vector<double> all = t.to_doubles();
      std::fill(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), real(value));
      t = Tensor::of<double>(t.shape(), all).cast(t.type());
    } else {
      std::vector<int64_t> all = t.to_ints();
      std::fill(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), value);
      t = Tensor::of<int64_t>(t.shape(), all).cast(t.type());
    }
  };
}

std::vector<Number> numbers_of(const OperatorCase& c) {
  std::vector<Number> numbers;
  if (c.model.graph().node_size() > most_nodes) return numbers;
  const size_t rank = c.feeds.empty() ? 0 : c.feeds[0].tensor.shape().size(), spatial = rank > 2 ? rank - 2 : 1;
  for (int n = 0; n < c.model.graph().node_size(); ++n) {
    const onnx::NodeProto& node = c.model.graph().node(n);
    const auto* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), node.domain());
    if (!schema) continue;
    for (const auto& [name, a] : schema->attributes()) {
      if (a.type == onnx::AttributeProto::INT || a.type == onnx::AttributeProto::FLOAT)
        numbers.push_back(of_attribute(n, name, a.type, 1, false));
      else if (a.type == onnx::AttributeProto::INTS)
        numbers.push_back(of_attribute(n, name, a.type, name == "pads" ? 2 * spatial : spatial, false));
    }
  }
  for (size_t i = 0; i < c.feeds.size(); ++i) {
    const Tensor& t = c.feeds[i].tensor;
    if (t.size() == 0 || t.size() > most_of_a_list || t.type() == DType::string || t.type() == DType::boolean) continue;
    numbers.push_back(of_feed(i, false));
    if (t.size() > 1) numbers.push_back(of_feed(i, true));
  }
  return numbers;
}

/// Tensors without elements, whose other extents cost nothing. Everywhere: extents that agreed stay in agreement.
Number of_shape(size_t feed, size_t none, size_t many, bool everywhere) {
  return [=](OperatorCase& c, int64_t value) {
    const Shape before = c.feeds[feed].tensor.shape();
    for (size_t i = 0; i < c.feeds.size(); ++i) {
      Tensor& t = c.feeds[i].tensor;
      Shape s = t.shape();
      for (size_t a = 0; a < s.size(); ++a) {
        const bool here = i == feed;
        if (here ? a == none : everywhere && s[a] == before[none] && s[a] != 1)
          s[a] = 0;
        else if (here ? a == many : everywhere && s[a] == before[many] && s[a] != 1)
          s[a] = value;
      }
      if (s != t.shape() && std::ranges::count(s, 0) > 0) t = Tensor::empty(t.type(), s);
    }
  };
}

std::vector<Number> shapes_of(const OperatorCase& c) {
  std::vector<Number> shapes;
  if (c.model.graph().node_size() > most_nodes) return shapes;
  for (size_t i = 0; i < c.feeds.size(); ++i)
    for (size_t none = 0; none < c.feeds[i].tensor.shape().size(); ++none)
      for (size_t many = 0; many < c.feeds[i].tensor.shape().size(); ++many)
        for (const bool everywhere : {false, true})
          if (none != many) shapes.push_back(of_shape(i, none, many, everywhere));
  return shapes;
}

/// A model says its inputs' extents: they become symbols.
void forget_extents(onnx::ModelProto& model) {
  for (auto& i : *model.mutable_graph()->mutable_input())
    for (auto& d : *i.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) d.clear_dim_value();
}

}  // namespace

std::vector<Extreme> extremes_of(const OperatorCase& c) {
  const size_t n = numbers_of(c).size(), shapes = shapes_of(c).size();
  std::vector<std::vector<size_t>> sets;
  for (size_t i = 0; i < n; ++i) {
    sets.push_back({i});
    for (size_t k = i + 1; k < n; ++k) {
      sets.push_back({i, k});
      for (size_t m = k + 1; m < n && n <= most_for_threes; ++m) sets.push_back({i, k, m});
    }
  }
  std::vector<Extreme> extremes;
  for (const auto& set : sets)
    for (const int64_t value :
         {int64_t{1} << 10, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 25, int64_t{1} << 30, int64_t{INT32_MAX},
          int64_t{1} << 40, int64_t{INT64_MAX}, -(int64_t{1} << 20), int64_t{INT64_MIN}})
      extremes.push_back({set, value});
  for (size_t i = 0; i < shapes; ++i)
    for (const int power : {28, 40, 62}) extremes.push_back({{n + i}, int64_t{1} << power});
  return extremes;
}

void apply(OperatorCase& c, const Extreme& extreme) {
  std::vector<Number> numbers = numbers_of(c);
  const size_t first_shape = numbers.size();
  std::ranges::move(shapes_of(c), std::back_inserter(numbers));
  if (extreme.numbers[0] >= first_shape) forget_extents(c.model);
  for (const size_t i : extreme.numbers) numbers[i](c, extreme.value);
  c.model.mutable_graph()->clear_value_info();
  for (auto& o : *c.model.mutable_graph()->mutable_output())
    if (o.type().has_tensor_type()) o.mutable_type()->mutable_tensor_type()->clear_shape();
}

std::string kind_of(const OperatorCase& c) {
  std::string kind;
  for (const auto& n : c.model.graph().node()) {
    kind += n.op_type() + fmt::format(" {} {}", n.input_size(), n.output_size());
    std::set<std::string> attributes;
    for (const auto& a : n.attribute()) attributes.insert(a.name() + (a.has_s() ? a.s() : ""));
    for (const std::string& a : attributes) kind += " " + a;
  }
  return kind;
}

}  // namespace smelt::fuzz

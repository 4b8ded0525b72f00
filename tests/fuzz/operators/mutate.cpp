// What the fuzzer changes of a case.
#include <onnx/defs/schema.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "fuzz/operators/case.h"
#include "import/tensors.h"

namespace smelt::fuzz {
namespace {

constexpr int64_t most_elements = 1 << 16;  // of what is fed

class Mutator {
 public:
  Mutator(OperatorCase& c, Random& random) : c_(c), graph_(*c.model.mutable_graph()), random_(random) {}

  void change() {
    switch (below(14)) {
      case 0:
      case 1:
      case 2:
      case 3: return extent();
      case 4: return rank();
      case 5: return type();
      case 6:
      case 7: return values();
      case 8:
      case 9: return attribute();
      case 10: return constant();
      case 11: return leave_out();
      case 12: return one_in(3) ? version() : append();
      default: return append();
    }
  }

  /// What the model says of its inputs and outputs after the changes.
  void declare() {
    graph_.clear_value_info();
    for (Feed& f : c_.feeds) {
      onnx::ValueInfoProto* info = input(f.name);
      if (!info) continue;
      onnx::TensorProto proto;
      importer::write_tensor(Tensor::empty(f.tensor.type(), Shape{0}), proto);
      auto* type = info->mutable_type()->mutable_tensor_type();
      type->set_elem_type(proto.data_type());
      const bool symbols = !one_in(4);
      auto* shape = type->mutable_shape();
      shape->clear_dim();
      for (size_t a = 0; a < f.tensor.shape().size(); ++a) {
        auto* d = shape->add_dim();
        if (symbols && !one_in(5))
          d->set_dim_param(fmt::format("{}_{}", f.name, a));
        else
          d->set_dim_value(f.tensor.shape()[a]);
      }
    }
    for (auto& o : *graph_.mutable_output())
      if (o.type().has_tensor_type()) o.mutable_type()->mutable_tensor_type()->clear_shape();
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class L> auto& any(L& list) { return list[static_cast<int>(below(static_cast<size_t>(list.size())))]; }
  Feed* feed() { return c_.feeds.empty() ? nullptr : &c_.feeds[below(c_.feeds.size())]; }
  onnx::ValueInfoProto* input(const std::string& name) {
    for (auto& i : *graph_.mutable_input())
      if (i.name() == name) return &i;
    return nullptr;
  }
  onnx::NodeProto* node() {
    return graph_.node_size() == 0 ? nullptr
                                   : graph_.mutable_node(static_cast<int>(below(static_cast<size_t>(graph_.node_size()))));
  }

  int64_t number() {
    static constexpr int64_t odd[] = {0,
                                      -1,
                                      2,
                                      3,
                                      7,
                                      16,
                                      -2,
                                      -7,
                                      31,
                                      1 << 16,
                                      INT32_MAX,
                                      int64_t{1} << 31,
                                      int64_t{1} << 32,
                                      int64_t{1} << 40,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT32_MIN,
                                      1,
                                      4};
    return one_in(3) ? odd[below(std::size(odd))] : static_cast<int64_t>(below(6));
  }

  /// The elements of t, again and again, in another shape; those of an empty one made up.
  Tensor refilled(const Tensor& t, const Shape& shape) {
    if (t.size() == 0 || one_in(3)) return make_tensor(t.type(), shape, one_in(4), random_);
    const auto count = static_cast<size_t>(elements(shape));
    const auto repeated = [&](const auto& from) {
      std::decay_t<decltype(from)> to(count);
      for (size_t i = 0; i < count; ++i) to[i] = from[i % from.size()];
      return to;
    };
    if (t.type() == DType::string) return Tensor::of_strings(shape, repeated(t.strings()));
    if (is_float(t.type())) return Tensor::of<double>(shape, repeated(t.to_doubles())).cast(t.type());
    return Tensor::of<int64_t>(shape, repeated(t.to_ints())).cast(t.type());
  }
  void reshape(Feed& f, const Shape& shape) {
    if (elements(shape) <= most_elements) f.tensor = refilled(f.tensor, shape);
  }

  void extent() {
    Feed* f = feed();
    if (!f || f->tensor.rank() == 0) return;
    const size_t axis = below(f->tensor.shape().size());
    const int64_t before = f->tensor.shape()[axis];
    const int64_t choices[] = {0,  0,  0,  1,  1,          2,          3,          5,          8,  16,
                               17, 33, 64, 65, before + 1, before - 1, before * 2, before / 2, 100};
    const int64_t after = std::max<int64_t>(0, choices[below(std::size(choices))]);
    const bool everywhere = one_in(2);  // extents that agree stay in agreement
    for (Feed& other : c_.feeds) {
      Shape s = other.tensor.shape();
      bool changed = false;
      for (size_t a = 0; a < s.size(); ++a)
        if ((&other == f && a == axis) || (everywhere && s[a] == before && before != 1)) s[a] = after, changed = true;
      if (changed) reshape(other, s);
    }
  }

  void rank() {
    Feed* f = feed();
    if (!f) return;
    Shape s = f->tensor.shape();
    if (one_in(2) || s.empty())
      s.insert(s.begin() + static_cast<std::ptrdiff_t>(below(s.size() + 1)), static_cast<int64_t>(1 + below(2)));
    else
      s.erase(s.begin() + static_cast<std::ptrdiff_t>(below(s.size())));
    reshape(*f, s);
  }

  void type() {
    static constexpr DType types[] = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                                      DType::i8,  DType::u8,  DType::i16, DType::u16, DType::u32,  DType::u64, DType::boolean};
    Feed* f = feed();
    if (!f) return;
    const DType before = f->tensor.type(), after = types[below(std::size(types))];
    if (before == DType::string) return;
    const bool everywhere = !one_in(4);
    for (Feed& other : c_.feeds)
      if (&other == f || (everywhere && other.tensor.type() == before)) other.tensor = other.tensor.cast(after);
    onnx::TensorProto was, is;
    importer::write_tensor(Tensor::empty(before, Shape{0}), was);
    importer::write_tensor(Tensor::empty(after, Shape{0}), is);
    for (auto& o : *graph_.mutable_output())
      if (o.type().has_tensor_type() && o.type().tensor_type().elem_type() == was.data_type())
        o.mutable_type()->mutable_tensor_type()->set_elem_type(is.data_type());
  }

  void values() {
    Feed* f = feed();
    if (!f) return;
    if (one_in(2) || f->tensor.size() == 0 || f->tensor.type() == DType::string) {
      f->tensor = make_tensor(f->tensor.type(), f->tensor.shape(), true, random_);
      return;
    }
    const auto at = below(static_cast<size_t>(f->tensor.size()));
    const Tensor odd = make_tensor(f->tensor.type(), f->tensor.shape(), true, random_);
    if (is_float(f->tensor.type())) {
      auto all = f->tensor.to_doubles();
      all[at] = odd.to_doubles()[at];
      f->tensor = Tensor::of<double>(f->tensor.shape(), all).cast(f->tensor.type());
    } else {
      auto all = f->tensor.to_ints();
      all[at] = one_in(2) ? number() : odd.to_ints()[at];
      f->tensor = Tensor::of<int64_t>(f->tensor.shape(), all).cast(f->tensor.type());
    }
  }

  void attribute() {
    onnx::NodeProto* n = node();
    if (!n) return;
    const auto* schema = onnx::OpSchemaRegistry::Schema(n->op_type(), n->domain());
    if (schema && !schema->attributes().empty() && one_in(2)) return add_attribute(*n, *schema);
    if (n->attribute_size() == 0) return;
    const int i = static_cast<int>(below(static_cast<size_t>(n->attribute_size())));
    if (one_in(8)) {
      n->mutable_attribute()->DeleteSubrange(i, 1);
      return;
    }
    change_attribute(*n->mutable_attribute(i));
  }

  void change_attribute(onnx::AttributeProto& a) {
    if (a.has_i()) a.set_i(number());
    if (a.has_f()) a.set_f(one_in(3) ? static_cast<float>(number()) : static_cast<float>(below(100)) / 25 - 1);
    if (a.has_s()) a.set_s(word());
    if (a.ints_size() == 0) return;
    if (one_in(6))
      a.mutable_ints()->RemoveLast();
    else if (one_in(6))
      a.add_ints(number());
    else
      a.set_ints(static_cast<int>(below(static_cast<size_t>(a.ints_size()))), number());
  }

  void add_attribute(onnx::NodeProto& n, const onnx::OpSchema& schema) {
    auto which = schema.attributes().begin();
    std::advance(which, below(schema.attributes().size()));
    auto& list = *n.mutable_attribute();
    for (int i = list.size(); i-- > 0;)
      if (list[i].name() == which->first) list.DeleteSubrange(i, 1);
    onnx::AttributeProto a;
    a.set_name(which->first);
    a.set_type(which->second.type);
    switch (which->second.type) {
      case onnx::AttributeProto::INT: a.set_i(number()); break;
      case onnx::AttributeProto::FLOAT: a.set_f(static_cast<float>(below(100)) / 25 - 1); break;
      case onnx::AttributeProto::STRING: a.set_s(word()); break;
      case onnx::AttributeProto::INTS:
        for (size_t k = below(5); k > 0; --k) a.add_ints(number());
        break;
      default: return;
    }
    *n.add_attribute() = a;
  }

  std::string word() {
    static constexpr const char* words[] = {"",           "SAME_UPPER", "SAME_LOWER",
                                            "VALID",      "NOTSET",     "linear",
                                            "cubic",      "nearest",    "reflect",
                                            "wrap",       "edge",       "constant",
                                            "max",        "avg",        "add",
                                            "mul",        "min",        "none",
                                            "zeros",      "border",     "reflection",
                                            "DCR",        "CRD",        "align_corners",
                                            "asymmetric", "half_pixel", "output_half_pixel",
                                            "floor",      "ceil",       "round_prefer_ceil",
                                            "ij,jk->ik",  "...i->...",  "bidirectional",
                                            "reverse",    "forward",    "tf_crop_and_resize",
                                            "tanh",       "not_larger", "not_smaller"};
    return words[below(std::size(words))];
  }

  void constant() {
    if (c_.feeds.size() < 2) return;
    const size_t i = below(c_.feeds.size());
    importer::write_tensor(c_.feeds[i].tensor, *graph_.add_initializer());
    graph_.mutable_initializer(graph_.initializer_size() - 1)->set_name(c_.feeds[i].name);
    for (int k = graph_.input_size(); k-- > 0;)
      if (graph_.input(k).name() == c_.feeds[i].name) graph_.mutable_input()->DeleteSubrange(k, 1);
    c_.feeds.erase(c_.feeds.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void leave_out() {
    onnx::NodeProto* n = node();
    if (!n || n->input_size() == 0) return;
    if (one_in(2))
      n->mutable_input()->RemoveLast();
    else if (one_in(2))
      n->set_input(static_cast<int>(below(static_cast<size_t>(n->input_size()))), "");
    else if (!c_.feeds.empty())
      n->set_input(static_cast<int>(below(static_cast<size_t>(n->input_size()))), feed()->name);
  }

  void version() {
    for (auto& o : *c_.model.mutable_opset_import())
      if (o.domain().empty()) o.set_version(static_cast<int64_t>(7 + below(18)));
  }

  onnx::NodeProto& add_node(const char* op, std::initializer_list<std::string> inputs, const std::string& output) {
    onnx::NodeProto& n = *graph_.add_node();
    n.set_op_type(op);
    n.set_name(output + "_maker");
    for (const std::string& i : inputs) n.add_input(i);
    n.add_output(output);
    return n;
  }
  std::string add_constant(const Tensor& t) {
    const std::string name = fmt::format("appended_{}", graph_.initializer_size() + graph_.node_size());
    importer::write_tensor(t, *graph_.add_initializer());
    graph_.mutable_initializer(graph_.initializer_size() - 1)->set_name(name);
    return name;
  }

  /// A node behind the first output, which it becomes.
  void append() {
    if (graph_.output_size() == 0 || !graph_.output(0).type().has_tensor_type()) return;
    const std::string from = graph_.output(0).name(), to = fmt::format("appended_{}_{}", graph_.node_size(), from);
    onnx::TensorProto elem;
    importer::write_tensor(make_tensor(DType::f32, {}, false, random_), elem);
    const bool real = graph_.output(0).type().tensor_type().elem_type() == elem.data_type();
    switch (below(real ? 14 : 5)) {
      case 0: {
        const int64_t step = one_in(2) ? -1 : 2;
        const auto list = [&](int64_t v) { return add_constant(Tensor::of<int64_t>({1}, {v})); };
        add_node("Slice",
                 {from, list(step < 0 ? -1 : 0), list(step < 0 ? INT64_MIN : INT64_MAX), list(one_in(2) ? 0 : -1), list(step)},
                 to);
        break;
      }
      case 1: add_node("Transpose", {from}, to); break;
      case 2: add_node("Reshape", {from, add_constant(Tensor::of<int64_t>({2}, {0, -1}))}, to); break;
      case 3: {
        auto& a = *add_node("Concat", {from, from}, to).add_attribute();
        a.set_name("axis"), a.set_type(onnx::AttributeProto::INT), a.set_i(one_in(2) ? -1 : 0);
        break;
      }
      case 4: add_node("Unsqueeze", {from, add_constant(Tensor::of<int64_t>({1}, {one_in(2) ? 0 : -1}))}, to); break;
      case 5: add_node("Relu", {from}, to); break;
      case 6: add_node("Sigmoid", {from}, to); break;
      case 7:
        add_node("Add", {from, add_constant(make_tensor(DType::f32, one_in(2) ? Shape{} : Shape{1}, false, random_))}, to);
        break;
      case 8: add_node("Mul", {from, from}, to); break;
      case 9: add_node("Softmax", {from}, to); break;
      case 10: add_node("ReduceMean", {from, add_constant(Tensor::of<int64_t>({1}, {-1}))}, to); break;
      case 11: add_node("ReduceMax", {from}, to); break;
      case 12:
        add_node("MatMul",
                 {from, add_constant(make_tensor(DType::f32, {static_cast<int64_t>(1 + below(5)), static_cast<int64_t>(below(9))},
                                                 false, random_))},
                 to);
        break;
      default: {
        const auto scalar = [&](const Tensor& t) { return add_constant(t); };
        const std::string scale = scalar(Tensor::scalar(0.05f)), zero = scalar(Tensor::scalar(uint8_t{128}));
        add_node("QuantizeLinear", {from, scale, zero}, to + "_q");
        add_node("DequantizeLinear", {to + "_q", scale, zero}, to);
      }
    }
    graph_.mutable_output(0)->set_name(to);
  }

  OperatorCase& c_;
  onnx::GraphProto& graph_;
  Random& random_;
};

}  // namespace

void mutate(OperatorCase& c, Random& random) {
  Mutator m(c, random);
  for (size_t n = 1 + random() % 4; n > 0; --n) m.change();
  m.declare();
}

}  // namespace smelt::fuzz

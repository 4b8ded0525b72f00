// Operators that are one of ONNX's under another name, with other defaults, or a few of them together.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {

void same_spelling(Call& c) { c.node.set_domain(""); }

void expand_dims(Call& c) {
  const Name axis = c.before("Cast", {c.input(1)}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT64})});
  c.become("Unsqueeze", {c.input(0), c.before("Reshape", {axis, c.constant({1})})});
}

void grid_sample(Call& c) {
  const std::string mode = c.text("mode", "bilinear");
  c.become("GridSample", {c.input(0), c.input(1)},
           {MakeAttribute("mode", mode == "bilinear"  ? std::string("linear")
                                  : mode == "bicubic" ? std::string("cubic")
                                                      : mode),
            MakeAttribute("padding_mode", c.text("padding_mode", "zeros")),
            MakeAttribute("align_corners", c.integer("align_corners", 0))});
}

// x of any rank → its values in the order in which they are first met, where each element is among them, how often each is there
void unique(Call& c) {
  const Name flat = c.before("Reshape", {c.input(0), c.constant({-1})});
  const std::vector<Name> found = c.several("Unique", {flat}, 4, {MakeAttribute("sorted", int64_t{0})});
  c.give(1, found[2]);
  c.give(2, found[3]);
  c.become("Identity", {found[0]});
}

// A [M, K], B [N, K]: the distance of each row of A from each of B. |a|² + |b|² - 2 a b, which rounding may take below 0.
void cdist(Call& c) {
  const std::string metric = c.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") c.refuse("metric is '{}', expected sqeuclidean or euclidean", metric);
  const auto squares = [&](int i) { return c.before("ReduceSumSquare", {c.input(i), c.constant({1})}); };
  const auto turned = [&](const Name& x) {
    return c.before("Transpose", {x}, {MakeAttribute("perm", std::vector<int64_t>{1, 0})});
  };
  const Name sums = c.before("Add", {squares(0), turned(squares(1))});
  const Name product = c.before("MatMul", {c.input(0), turned(c.input(1))});
  const Name left = c.before("Sub", {sums, c.before("Mul", {product, c.score_scalar(2)})});
  const std::vector<Name> not_below{left, c.score_scalar(0)};
  if (metric == "sqeuclidean") return c.become("Max", not_below);
  c.become("Sqrt", {c.before("Max", not_below)});
}

// i16 by i16 in i32
void matmul_integer16(Call& c) {
  const auto wide = [&](int i) {
    return c.before("Cast", {c.input(i)}, {MakeAttribute("to", int64_t{onnx::TensorProto::INT32})});
  };
  c.become("MatMul", {wide(0), wide(1)});
}

// x with an axis `dim` of windows, and a last axis of the `size` elements of each
void unfold_tensor(Call& c) {
  const int rank = c.rank(0);
  int64_t axis = c.integer("dim", -1);
  const int64_t size = c.integer("size", 0), step = c.integer("step", 1);
  if (axis < -rank || axis >= rank || size < 1 || step < 1)
    c.refuse("dim is {} of rank {}, size {} and step {}, expected 1 or more", axis, rank, size, step);
  if (axis < 0) axis += rank;
  const auto scalar = [&](int64_t v) { return c.before("Squeeze", {c.constant({v}), c.constant({0})}); };
  const Name beyond = c.before("Sub", {extent_of(c, c.input(0), axis), c.constant({size - 1})});
  const Name begins = c.before("Range", {scalar(0), c.before("Squeeze", {beyond, c.constant({0})}), scalar(step)});
  const Name places = c.before("Add", {unsqueeze(c, begins, {1}), positions(c, c.constant({size}))});
  std::vector<int64_t> perm;
  for (int64_t a = 0; a <= rank; ++a)
    if (a != axis + 1) perm.push_back(a);
  perm.push_back(axis + 1);
  c.become("Transpose", {c.before("Gather", {c.input(0), places}, {MakeAttribute("axis", axis)})}, {MakeAttribute("perm", perm)});
}

// X, W, Pads?, B?: what Pads (begins, then ends) leaves of the convolution without padding
void conv_transpose_with_dynamic_pads(Call& c) {
  if (const std::string automatic = c.text("auto_pad", "NOTSET"); automatic != "NOTSET")
    c.refuse("auto_pad is '{}', expected NOTSET", automatic);
  const int64_t axes = c.rank(1) - 2;
  if (axes < 1) c.refuse("its weights '{}' have rank {}, expected 3 or more", c.input(1), axes + 2);
  std::vector<Name> inputs{c.input(0), c.input(1)};
  if (c.has(3)) inputs.push_back(c.input(3));
  const std::vector<onnx::AttributeProto> attributes(c.node.attribute().begin(), c.node.attribute().end());
  if (!c.has(2)) return c.become("ConvTranspose", inputs, attributes);
  if (const auto count = c.extent(2, 0); count && *count != 2 * axes)
    c.refuse("its pads '{}' have {} elements, expected {}", c.input(2), *count, 2 * axes);
  const Name pads = c.input(2), whole = c.before("ConvTranspose", inputs, attributes);
  const auto part = [&](int64_t from) { return c.before("Slice", {pads, c.constant({from}), c.constant({from + axes})}); };
  const Name ends = c.before("Sub", {c.before("Shape", {whole}, {MakeAttribute("start", int64_t{2})}), part(axes)});
  std::vector<int64_t> spatial;
  for (int64_t a = 0; a < axes; ++a) spatial.push_back(2 + a);
  c.become("Slice", {whole, part(0), ends, c.constant(spatial)});
}

// Strings to integers or integers to strings, by two lists: what LabelEncoder does.
void category_mapper(Call& c) {
  const auto *strings = find_attribute(c.node, "cats_strings"), *integers = find_attribute(c.node, "cats_int64s");
  if (!strings || !integers || strings->strings_size() != integers->ints_size())
    c.refuse("cats_strings and cats_int64s have {} and {} elements", strings ? strings->strings_size() : 0,
             integers ? integers->ints_size() : 0);
  const bool from_text = c.element_type(0) == onnx::TensorProto::STRING;
  const std::vector<std::string> words(strings->strings().begin(), strings->strings().end());
  const std::vector<int64_t> numbers(integers->ints().begin(), integers->ints().end());
  std::vector<onnx::AttributeProto> attributes{MakeAttribute(from_text ? "keys_strings" : "values_strings", words),
                                               MakeAttribute(from_text ? "values_int64s" : "keys_int64s", numbers)};
  if (from_text)
    attributes.push_back(MakeAttribute("default_int64", c.integer("default_int64", -1)));
  else
    attributes.push_back(MakeAttribute("default_string", c.text("default_string", "_Unused")));
  c.become("LabelEncoder", {c.input(0)}, attributes, "ai.onnx.ml");
}

void echo(Call& c) { c.become("Identity", {c.input(0)}); }

}  // namespace smelt::importer::microsoft

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

}  // namespace smelt::importer::microsoft

// Einsum and Det.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/einsum/einsum.h"
#include "ops/einsum/family.h"
#include "ops/pointwise/reference.h"

namespace smelt::ops {
namespace {

/// A term's axes in order: a letter, or '.' once for each axis that its ellipsis stands for.
using Term = std::string;

struct Equation {
  std::vector<Term> inputs;
  Term output;
};

Term parse_term(const std::string& text) {
  Term t;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.compare(i, 3, "...") == 0) {
      if (t.find('.') != Term::npos) fail("the term '{}' has two ellipses", text);
      t += '.';
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      t += text[i];
    } else {
      fail("the term '{}' has the character '{}'; letters and '...' are allowed", text, text[i]);
    }
  }
  return t;
}

/// Without an arrow the output is the ellipsis and every letter that occurs once, in alphabetical order.
Equation parse(const std::string& text, size_t operands) {
  const size_t arrow = text.find("->");
  Equation e;
  std::map<char, int> seen;
  std::string left = text.substr(0, arrow);
  for (size_t begin = 0;;) {
    const size_t comma = left.find(',', begin);
    e.inputs.push_back(parse_term(left.substr(begin, comma == std::string::npos ? comma : comma - begin)));
    for (char letter : e.inputs.back()) ++seen[letter];
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  if (e.inputs.size() != operands) fail("equation '{}' has {} terms for {} inputs", text, e.inputs.size(), operands);
  if (arrow != std::string::npos) {
    e.output = parse_term(text.substr(arrow + 2));
    for (char letter : e.output) {
      if (letter != '.' && !seen.contains(letter)) fail("equation '{}': no input has the output's '{}'", text, letter);
      if (std::count(e.output.begin(), e.output.end(), letter) > 1) fail("equation '{}': the output repeats '{}'", text, letter);
    }
  } else {
    if (seen.contains('.')) e.output.push_back('.');
    for (auto [letter, count] : seen) {
      if (letter != '.' && count == 1) e.output += letter;
    }
  }
  return e;
}

Contraction contraction(const Equation& e, const std::vector<Shape>& shapes) {
  size_t widest = 0;  // axes that the ellipsis stands for
  for (size_t k = 0; k < shapes.size(); ++k) {
    const size_t letters = e.inputs[k].size() - (e.inputs[k].find('.') != Term::npos ? 1 : 0);
    if (shapes[k].size() < letters || (shapes[k].size() > letters && letters == e.inputs[k].size())) {
      fail("term '{}' does not fit input {} of shape {}", e.inputs[k], k, to_string(shapes[k]));
    }
    widest = std::max(widest, shapes[k].size() - letters);
  }
  // Every loop has a key: a letter, or the ellipsis axis counted from its last (broadcasting aligns those).
  const auto keys = [&](const Term& t, size_t ellipsis) {
    std::vector<int> result;
    for (char letter : t) {
      if (letter != '.')
        result.push_back(letter);
      else
        for (size_t i = ellipsis; i > 0; --i) result.push_back(256 + static_cast<int>(i));
    }
    return result;
  };
  std::map<int, int64_t> extent;
  std::vector<std::map<int, int64_t>> step(shapes.size());
  for (size_t k = 0; k < shapes.size(); ++k) {
    const bool has_ellipsis = e.inputs[k].find('.') != Term::npos;
    const auto own = keys(e.inputs[k], has_ellipsis ? shapes[k].size() - (e.inputs[k].size() - 1) : 0);
    const Shape s = strides(shapes[k]);
    for (size_t a = 0; a < own.size(); ++a) {
      int64_t& n = extent.try_emplace(own[a], 1).first->second;
      const int64_t here = shapes[k][a];
      if (n == 1)
        n = here;
      else if (here != 1 && here != n)
        fail("input {} has extent {} where another has {}", k, here, n);
      if (here != 1) step[k][own[a]] += s[a];  // a repeated letter walks the diagonal
    }
  }
  Contraction c{{}, {}, std::vector<Shape>(shapes.size()), std::vector<Shape>(shapes.size())};
  const auto add_loop = [&](int key, Shape& extents, std::vector<Shape>& operand_strides) {
    extents.push_back(extent[key]);
    for (size_t k = 0; k < shapes.size(); ++k) operand_strides[k].push_back(step[k].contains(key) ? step[k][key] : 0);
  };
  const auto out = keys(e.output, widest);
  for (int key : out) add_loop(key, c.outer, c.outer_strides);
  for (auto [key, n] : std::map(extent)) {
    if (std::find(out.begin(), out.end(), key) == out.end()) add_loop(key, c.summed, c.summed_strides);
  }
  return c;
}

}  // namespace

Contraction einsum_contraction(const Node& n, const std::vector<Shape>& shapes) {
  return contraction(parse(n.get_string("equation", ""), shapes.size()), shapes);
}

namespace {

void infer_einsum(InferContext& c) {
  const DType type = type_of(c, 0);
  const Equation e = parse(c.node.get_string("equation", ""), c.inputs.size());
  std::vector<Shape> shapes;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (type_of(c, i) != type) fail("inputs 0 and {} have the types {} and {}", i, name(type), name(c.in(i).type));
    if (!c.in(i).shape_known) return c.set_type(0, type);
    shapes.push_back(c.shape(i));
  }
  c.set(0, type, contraction(e, shapes).outer);
}

void run_einsum(ComputeContext& c) {
  std::vector<Shape> shapes;
  for (const Tensor& t : c.inputs) shapes.push_back(t.shape());
  const Contraction plan = einsum_contraction(c.node, shapes);
  const LoopNest outer(plan.outer, plan.outer_strides), summed(plan.summed, plan.summed_strides);
  const size_t operands = shapes.size();
  dispatch_compute(c.outputs[0].type(), "Einsum", [&]<class C>(C) {
    using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
    std::vector<std::vector<A>> values(operands);
    for (size_t k = 0; k < operands; ++k) {
      values[k].resize(static_cast<size_t>(c.in(k).size()));
      load(c.in(k), 0, 1, c.in(k).size(), values[k].data());
    }
    int64_t result = 0;
    std::vector<const A*> first(operands);
    outer.for_each_run([&](std::span<const int64_t> base) {
      for (int64_t o = 0; o < outer.run(); ++o) {
        A total = 0;
        summed.for_each_run([&](std::span<const int64_t> at) {
          for (size_t k = 0; k < operands; ++k) first[k] = values[k].data() + base[k] + o * outer.stride(k) + at[k];
          for (int64_t i = 0; i < summed.run(); ++i) {
            A product = 1;
            for (size_t k = 0; k < operands; ++k) product = wrapping_mul(product, first[k][i * summed.stride(k)]);
            total = wrapping_add(total, product);
          }
        });
        store(c.outputs[0], result++, 1, &total);
      }
    });
  });
}

// --- Det ----------------------------------------------------------------------------------------------------------

void infer_det(InferContext& c) {
  const DType type = type_of(c, 0);
  if (!c.in(0).shape_known) return c.set_type(0, type);
  const Shape& s = c.shape(0);
  if (s.size() < 2 || s[s.size() - 1] != s[s.size() - 2]) fail("the input has shape {}, expected square matrices", to_string(s));
  c.set(0, type, Shape(s.begin(), s.end() - 2));
}

/// Gaussian elimination with the largest pivot of each column; `m` is destroyed.
double determinant(std::vector<double>& m, size_t n) {
  double result = 1;
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < n; ++row) {
      if (std::abs(m[row * n + column]) > std::abs(m[pivot * n + column])) pivot = row;
    }
    if (m[pivot * n + column] == 0) return 0;
    if (pivot != column) {
      std::swap_ranges(m.begin() + static_cast<std::ptrdiff_t>(pivot * n),
                       m.begin() + static_cast<std::ptrdiff_t>((pivot + 1) * n),
                       m.begin() + static_cast<std::ptrdiff_t>(column * n));
      result = -result;
    }
    result *= m[column * n + column];
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = m[row * n + column] / m[column * n + column];
      for (size_t k = column; k < n; ++k) m[row * n + k] -= factor * m[column * n + k];
    }
  }
  return result;
}

void run_det(ComputeContext& c) {
  const int64_t n = c.in(0).shape().back();
  std::vector<double> matrix(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < c.outputs[0].size(); ++i) {
    load(c.in(0), i * n * n, 1, n * n, matrix.data());
    const double value = determinant(matrix, static_cast<size_t>(n));
    store(c.outputs[0], i, 1, &value);
  }
}

}  // namespace

std::span<const OpRow> einsum_ops() {
  static constexpr OpRow table[] = {
      {{"Einsum", onnx_domain, infer_einsum, run_einsum}, {.contracts = true}},
      {{"Det", onnx_domain, infer_det, run_det}, {.autocast = Autocast::fp32}},
  };
  return table;
}

}  // namespace smelt::ops

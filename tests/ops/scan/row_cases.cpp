// What works along axes: softmax, norms, reductions, scans, choices of the largest; and recurrent networks.
#include "ops/scan/row_cases.h"

#include <fmt/format.h>

namespace smelt::ops::scan {
namespace {

Shape shape(Choices& c, int64_t most, size_t least_rank = 1) {
  Shape s;
  const int64_t rank = c.between(static_cast<int64_t>(least_rank), 4);
  const bool one_long = c.one_in(3);
  for (int64_t a = 0; a < rank; ++a) s.push_back(c.extent(one_long && a == rank - 1 ? 5000 : 70));
  while (elements(s) > most) {
    int64_t& largest = *std::ranges::max_element(s);
    largest = (largest + 1) / 2;
  }
  return s;
}

DType real(Choices& c) { return c.of({DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64}); }

void begin(Choices& c, Case& k) { k.draw(c); }

constexpr int64_t most = 20000;

std::vector<int64_t> some_axes(Choices& c, size_t rank) {
  std::vector<int64_t> axes;
  for (size_t a = 0; a < rank; ++a)
    if (c.one_in(2)) axes.push_back(static_cast<int64_t>(a) - (c.one_in(4) ? static_cast<int64_t>(rank) : 0));
  return axes;
}

}  // namespace

Case softmax(Choices& c) {
  Case k;
  begin(c, k);
  k.values = c.one_in(2) ? Values::real : Values::whole;
  const DType type = real(c);
  const Shape x = shape(c, most);
  k.trial.node.op = c.of({"Softmax", "LogSoftmax"});
  k.trial.node.opset = 13;
  k.trial.node.attrs["axis"] = c.between(0, static_cast<int64_t>(x.size()) - 1);
  k.add(k.numbers(type, x, -9, 9), false);
  k.units = 2, k.roundings = 64;
  k.results();
  return k;
}

Case norm(Choices& c) {
  Case k;
  begin(c, k);
  k.values = Values::real;
  const DType type = real(c);
  const std::string op = c.of({"LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization",
                               "BatchNormalization", "LpNormalization", "LRN", "MeanVarianceNormalization", "ai.smelt.Norm"});
  Node& n = k.trial.node;
  n.op = op;
  n.opset = 21;
  Shape x = shape(c, most, op == "LayerNormalization" || op == "RMSNormalization" || op == "LpNormalization" ? 1 : 3);
  const auto parameters = [&](const Shape& s, int count) {
    for (int i = 0; i < count; ++i)
      k.add([s, type](uint32_t seed) { return random_tensor(type, s, seed, 0.5, 1.5); }, c.one_in(2));
  };
  if (op == "GroupNormalization") {
    const int64_t groups = c.between(1, 4);
    x[1] = std::max<int64_t>(1, x[1] / groups) * groups;
    n.attrs["num_groups"] = groups;
  }
  if (x.back() < 3) x.back() = 3;  // what is left of one number is its rounding
  Layout layout = Layout::plain;
  if (x.size() == 4 && op == "BatchNormalization") layout = c.of({Layout::plain, Layout::nhwc});
  k.add(k.numbers(type, x), false, layout);
  const int64_t rank = static_cast<int64_t>(x.size());
  if (op == "LayerNormalization" || op == "RMSNormalization") {
    const int64_t axis = c.between(0, rank - 1);
    n.attrs["axis"] = axis;
    const Shape row(x.begin() + axis, x.end());
    parameters(row, op[0] == 'R' ? 1 : static_cast<int>(c.between(1, 2)));
  } else if (op == "ai.smelt.Norm") {
    n.op = "Norm", n.domain = smelt_domain;
    n.attrs["kind"] = std::string(c.of({"layer", "rms"}));
    const int64_t axis = c.between(1, 2);
    n.attrs["axis"] = -axis;
    const Shape row(x.end() - axis, x.end());
    if (c.one_in(2))
      k.add(k.numbers(type, x), false);
    else
      k.leave_out();
    parameters(row, static_cast<int>(c.between(0, 2)));
    if (k.fills[1] && c.one_in(2)) n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  } else if (op == "GroupNormalization" || op == "InstanceNormalization") {
    parameters({x[1]}, 2);
  } else if (op == "BatchNormalization") {
    parameters({x[1]}, 4);
  } else if (op == "LpNormalization") {
    n.attrs["axis"] = c.between(0, rank - 1);
    n.attrs["p"] = c.of<int64_t>({2, 1});
  } else if (op == "LRN") {
    n.attrs["size"] = c.of<int64_t>({5, 1, 3, 2, 8});
  } else if (op == "MeanVarianceNormalization") {
    std::vector<int64_t> axes = some_axes(c, x.size());
    if (axes.empty() || std::ranges::find(axes, rank - 1) == axes.end()) axes.push_back(rank - 1);
    std::ranges::for_each(axes, [&](int64_t& a) { a = a < 0 ? a + rank : a; });
    n.attrs["axes"] = axes;
  }
  k.units = 3, k.roundings = 256;
  k.results();
  k.trial.bound.outputs[0].layout = layout;
  return k;
}

Case reduction(Choices& c) {
  Case k;
  begin(c, k);
  k.values = c.one_in(2) ? Values::real : Values::whole;
  const std::string op = c.of({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1",
                               "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"});
  const bool logs = op.find("Log") != std::string::npos;
  DType type = c.of({DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::i8, DType::u8});
  if (!is_float(type) && (logs || op == "ReduceL2" || op == "ReduceMean")) type = DType::f32;
  const Shape x = shape(c, most);
  Node& n = k.trial.node;
  n.op = op, n.opset = 18;
  n.attrs["keepdims"] = c.below(2);
  const auto positive = [type, x](uint32_t s) { return random_tensor(type, x, s, 0.9, 1.1); };
  if (is_float(type) && (op == "ReduceProd" || logs))
    k.add(positive, false);
  else
    k.add(k.numbers(type, x), false);
  const std::vector<int64_t> axes = some_axes(c, x.size());
  if (!axes.empty() || c.one_in(2)) k.add(Tensor::of<int64_t>({static_cast<int64_t>(axes.size())}, axes));
  const bool exact =
      op == "ReduceMax" || op == "ReduceMin" || (k.values == Values::whole && (op == "ReduceSum" || op == "ReduceL1"));
  if (!exact) {  // sums of up to `most` numbers below 1, or whole ones below 4
    // The reference's sums of doubles are rounded as often.
    k.units = 2, k.roundings = type == DType::f64 ? 512 : 64;
    if (op == "ReduceSum" || op == "ReduceMean") k.magnitude = [](std::span<const Tensor>) { return 64.0; };
    if (op == "ReduceProd") k.roundings = static_cast<double>(most);
  }
  k.results();
  if (c.one_in(6)) Case::widen(k.trial.bound.inputs[0], c.between(0, 5));
  return k;
}

Case choice(Choices& c) {
  Case k;
  begin(c, k);
  k.values = c.one_in(2) ? Values::real : Values::whole;
  const std::string op = c.of({"ArgMax", "ArgMin", "TopK", "CumSum", "Hardmax"});
  const bool floats = op == "Hardmax";
  const DType type = floats || c.one_in(2) ? real(c) : c.of({DType::i32, DType::i64, DType::u8, DType::i8});
  const Shape x = shape(c, most);
  Node& n = k.trial.node;
  n.op = op, n.opset = 13;
  const int64_t axis = c.between(0, static_cast<int64_t>(x.size()) - 1);
  DType own = type;
  if (op == "CumSum" && bits(type) == 8) own = DType::i32;
  k.add(k.numbers(own, x), false);
  if (op == "CumSum") {
    k.add(Tensor::scalar<int64_t>(axis));
    n.attrs["exclusive"] = c.below(2), n.attrs["reverse"] = c.below(2);
    k.units = 1, k.roundings = 64;
    k.magnitude = [](std::span<const Tensor>) { return 64.0; };
    if (k.values == Values::whole && (own == DType::f32 || own == DType::f64)) k.units = k.roundings = 0;
  } else {
    n.attrs["axis"] = axis;
  }
  if (op.starts_with("Arg")) n.attrs["keepdims"] = c.below(2), n.attrs["select_last_index"] = c.below(2);
  if (op == "TopK") {
    k.add(Tensor::of<int64_t>({1}, {c.between(1, x[static_cast<size_t>(axis)])}));
    n.attrs["largest"] = c.below(2), n.attrs["sorted"] = int64_t{1};
    n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  }
  k.results();
  return k;
}

Case recurrent(Choices& c) {
  Case k;
  begin(c, k);
  k.values = Values::real;
  const std::string op = c.of({"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"});
  const bool bytes = op == "DynamicQuantizeLSTM", lstm = op.ends_with("LSTM");
  const DType type = bytes ? DType::f32 : c.of({DType::f32, DType::f32, DType::f16, DType::f64, DType::bf16});
  const int64_t gates = lstm ? 4 : op == "GRU" ? 3 : 1;
  const std::string direction = c.of({"forward", "reverse", "bidirectional"});
  const int64_t d = direction == "bidirectional" ? 2 : 1, steps = c.between(1, 7), batch = c.extent(17), input = c.extent(50),
                hidden = c.extent(50), rows = gates * hidden;
  Node& n = k.trial.node;
  n.op = op;
  if (bytes) n.domain = microsoft_domain;
  n.attrs["direction"] = direction, n.attrs["hidden_size"] = hidden;
  if (op == "GRU" && c.one_in(2)) n.attrs["linear_before_reset"] = int64_t{1};
  const bool first = !bytes && c.one_in(4);
  if (first) n.attrs["layout"] = int64_t{1};
  // Small weights: a chaotic state would magnify every rounding.
  const auto weights = [type](const Shape& s) {
    const double bound = std::min(0.5, 2 / std::sqrt(static_cast<double>(s.back())));
    return [s, type, bound](uint32_t seed) { return random_tensor(type, s, seed, -bound, bound); };
  };
  const DType wt = c.of({DType::i8, DType::u8});
  const bool constant = bytes || !c.one_in(5);
  k.add(k.numbers(type, first ? Shape{batch, steps, input} : Shape{steps, batch, input}), false);
  if (bytes) {
    k.add(k.numbers(wt, {d, input, rows}), true), k.add(k.numbers(wt, {d, hidden, rows}), true);
  } else {
    k.add(weights({d, rows, input}), constant), k.add(weights({d, rows, hidden}), constant);
  }
  c.one_in(2) ? static_cast<void>(k.add(k.numbers(type, {d, 2 * rows}), constant)) : k.leave_out();
  if (c.one_in(3)) {
    k.add([batch, steps](uint32_t s) { return random_tensor(DType::i32, {batch}, s, 0, static_cast<double>(steps) + 0.99); },
          false);
  } else {
    k.leave_out();
  }
  const Shape state = first ? Shape{batch, d, hidden} : Shape{d, batch, hidden};
  const bool states = c.one_in(2);
  for (int i = 0; i < (lstm ? 2 : 1); ++i) states ? static_cast<void>(k.add(k.numbers(type, state), false)) : k.leave_out();
  if (lstm) c.one_in(3) ? static_cast<void>(k.add(k.numbers(type, {d, 3 * hidden}), constant)) : k.leave_out();
  if (bytes) {
    const bool by_column = c.one_in(2);
    for (int i = 0; i < 2; ++i) {
      k.add(random_tensor(DType::f32, by_column ? Shape{d, rows} : Shape{d}, k.seed + 90 + static_cast<uint32_t>(i), 0.0005,
                          0.001));
      k.add(random_tensor(wt, by_column ? Shape{d, rows} : Shape{d}, k.seed + 95 + static_cast<uint32_t>(i),
                          wt == DType::u8 ? 110 : -9, wt == DType::u8 ? 140 : 9));
    }
  }
  n.outputs = {static_cast<ValueId>(101), static_cast<ValueId>(102)};
  if (lstm) n.outputs.push_back(static_cast<ValueId>(103));
  const int64_t unwanted = c.below(6);
  if (unwanted < static_cast<int64_t>(n.outputs.size()) && unwanted > 0) n.outputs[static_cast<size_t>(unwanted)] = ValueId::none;
  k.units = 4, k.roundings = bytes ? 1e5 : 4000;  // bytes: a state that lies between two of them
  k.results();
  return k;
}

}  // namespace smelt::ops::scan

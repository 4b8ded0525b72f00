// If, Loop and Scan. Their bodies are graphs; graph.h says how a node and its bodies share outer values.
#include <cstring>

#include "base/error.h"
#include "base/stop.h"
#include "ops/control/family.h"
#include "ops/control/loop_memory.h"
#include "ops/core/list_inputs.h"
#include "ops/core/loops.h"
#include "ops/core/repeated_body.h"

namespace smelt::ops {
namespace {

size_t captured(const Node& node) { return static_cast<size_t>(node.get_int("captured", 0)); }

const Graph& body_of(const Node& node, const char* attr) {
  const GraphPtr g = node.get_graph(attr);
  if (!g) fail("attribute {} is missing", attr);
  return *g;
}

DType output_type(const Graph& g, size_t i) { return g.value(g.outputs()[i]).type; }
/// The shape of a body's output where the body alone decides it.
std::optional<Shape> output_shape(const Graph& g, size_t i) {
  const std::optional<SymShape>& s = g.value(g.outputs()[i]).shape;
  return s && is_static(*s) ? std::optional(to_shape(*s)) : std::nullopt;
}

void expect_outputs(const Graph& g, size_t expected, const char* what) {
  if (g.outputs().size() != expected) fail("{} has {} outputs, expected {}", what, g.outputs().size(), expected);
}

/// A body lists its formal inputs, then the captured values: as many as the node has inputs.
void expect_inputs(const Graph& g, size_t expected) {
  if (g.inputs().size() != expected) fail("body has {} inputs, expected {}", g.inputs().size(), expected);
}

bool overlap(const Tensor& a, const Tensor& b) {
  const auto *x = static_cast<const char*>(a.raw()), *y = static_cast<const char*>(b.raw());
  return x == y || (x < y + b.nbytes() && y < x + a.nbytes());
}

/// Hands a body's result to output i: a copy where memory is given or where it would alias an input of the node.
void give(ComputeContext& c, size_t i, const Tensor& result) {
  if (!c.wants(i)) return;
  Tensor& out = c.outputs[i];
  if (!out.valid()) {
    bool aliases = false;
    for (const Tensor& in : c.inputs) aliases = aliases || (in.valid() && overlap(in, result));
    out = aliases ? result.clone() : result;
    return;
  }
  if (out.type() != result.type() || out.shape() != result.shape()) {
    fail("output {} is {} {}, expected {} {}", i, name(result.type()), to_string(result.shape()), name(out.type()),
         to_string(out.shape()));
  }
  if (result.type() == DType::string)
    out.strings() = result.strings();
  else
    std::memcpy(out.raw(), result.raw(), static_cast<size_t>(result.nbytes()));
}

bool truth(const Tensor& t) {
  if (t.size() != 1) fail("the condition has shape {}, expected one element", to_string(t.shape()));
  return t.type() == DType::boolean ? *static_cast<const uint8_t*>(t.raw()) != 0 : t.to_ints()[0] != 0;
}

int64_t element_bytes(DType t) {
  if (t == DType::string || bits(t) < 8) fail_unsupported("{} elements cannot be scanned", name(t));
  return bits(t) / 8;
}

/// Tensors of one shape put beside each other along a new axis, the last first when `backward`. With none, nothing of `type` with
/// the extents of `shape`; else their own type and shape, which an evaluation in double makes wider than the body declares.
Tensor stacked(const std::vector<Tensor>& parts, int64_t axis, bool backward, DType type, Shape shape) {
  if (!parts.empty()) shape = parts[0].shape(), type = parts[0].type();
  const int64_t count = static_cast<int64_t>(parts.size()), at = normalize_axis(axis, static_cast<int64_t>(shape.size()) + 1);
  for (const Tensor& p : parts) {
    if (p.shape() != shape) fail("an iteration gave shape {}, an earlier one {}", to_string(p.shape()), to_string(shape));
  }
  shape.insert(shape.begin() + at, count);
  Tensor out = Tensor::empty(type, shape);
  const AxisView v = around_axis(shape, at);
  const size_t run = static_cast<size_t>(v.inner * element_bytes(type));
  auto* to = static_cast<char*>(out.raw());
  for (int64_t o = 0; o < v.outer; ++o) {
    for (int64_t k = 0; k < count; ++k, to += run) {
      const Tensor& p = parts[static_cast<size_t>(backward ? count - 1 - k : k)];
      std::memcpy(to, static_cast<const char*>(p.raw()) + static_cast<size_t>(o) * run, run);
    }
  }
  return out;
}

/// Moves an iteration's results to those before; their bytes.
int64_t add_parts(std::vector<std::vector<Tensor>>& scanned, std::span<Tensor> parts) {
  int64_t all = 0;
  for (size_t k = 0; k < scanned.size(); ++k) {
    all += parts[k].nbytes();
    scanned[k].push_back(std::move(parts[k]));
  }
  return all;
}

/// Element `index` of a whole along an axis, and a tensor of that: from one to the other.
void copy_element(Tensor& whole, int64_t axis, int64_t index, Tensor& part, bool to_whole) {
  const AxisView v = around_axis(whole.shape(), axis);
  const auto run = static_cast<size_t>(v.inner * element_bytes(whole.type()));
  auto* at = static_cast<char*>(whole.raw()) + static_cast<size_t>(index) * run;
  auto* own = static_cast<char*>(part.raw());
  for (int64_t o = 0; o < v.outer; ++o, at += static_cast<size_t>(v.extent) * run, own += run)
    to_whole ? std::memcpy(at, own, run) : std::memcpy(own, at, run);
}

/// Element `index` of a tensor along an axis, without that axis: a view where its bytes are one piece.
Tensor element(const std::shared_ptr<Tensor>& whole, int64_t axis, int64_t index) {
  Tensor& t = *whole;
  const AxisView v = around_axis(t.shape(), axis);
  Shape shape = t.shape();
  shape.erase(shape.begin() + axis);
  if (v.outer == 1)
    return Tensor::borrow(t.type(), std::move(shape),
                          static_cast<char*>(whole->raw()) + index * v.inner * element_bytes(t.type()), whole);
  Tensor out = Tensor::empty(t.type(), shape);
  copy_element(t, axis, index, out, false);
  return out;
}

std::vector<Tensor> run_iteration(ComputeContext& c, const Graph& body, int64_t i, std::span<const Tensor> in) {
  try {
    return c.run_graph(body, in);
  } catch (const Error& e) {
    throw e.code() == ExitCode::stopped ? e : e.at(fmt::format("iteration {}", i));
  }
}

/// The body bound once for all iterations, where its tensors are so small that to copy them takes less than to bind others: what
/// changes are the first inputs. States keep their shapes; no boolean beside a Loop's condition changes, whose bytes are 0 or 1.
std::unique_ptr<RepeatedBody> repeated(const ComputeContext& c, const Graph& body, std::span<const Tensor> in, size_t changing,
                                       size_t first_state, size_t states, int64_t turns) {
  constexpr int64_t most_bytes = 1 << 15, fewest_turns = 4;
  BodyBinder* binder = BodyBinderScope::innermost();
  if (!binder || turns < fewest_turns) return nullptr;
  int64_t bytes = 0;
  for (size_t i = 0; i < changing; ++i) {
    if (!in[i].valid() || (i >= first_state && in[i].type() == DType::boolean)) return nullptr;
    bytes += in[i].nbytes();
  }
  if (bytes > most_bytes) return nullptr;
  auto r = binder->bind(c.node, body, in, changing);
  if (!r) return nullptr;
  const size_t first_output = first_state > 0 ? 1 : 0;  // a Loop's condition comes first
  for (const Tensor& t : r->outputs) bytes += t.nbytes();
  for (size_t s = 0; s < states; ++s) {
    const Tensor &from = r->outputs[first_output + s], &to = r->inputs[first_state + s];
    if (from.type() != to.type() || from.shape() != to.shape()) return nullptr;
  }
  return bytes > 2 * most_bytes ? nullptr : std::move(r);
}

void copy_bytes(const Tensor& from, Tensor& to) {
  if (to.nbytes() > 0) std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.nbytes()));
}

/// A turn of it, from the states before to those behind.
void turn(RepeatedBody& r, int64_t i, size_t first_state, size_t states) {
  try {
    r.run();
  } catch (const Error& e) {
    throw e.code() == ExitCode::stopped ? e : e.at(fmt::format("iteration {}", i));
  }
  for (size_t s = 0; s < states; ++s) copy_bytes(r.outputs[(first_state > 0 ? 1 : 0) + s], r.inputs[first_state + s]);
}

// --- If: condition, captured… ---

void infer_if(InferContext& c) {
  const Graph &yes = body_of(c.node, "then_branch"), &no = body_of(c.node, "else_branch");
  expect_outputs(yes, c.outputs.size(), "then_branch");
  expect_outputs(no, c.outputs.size(), "else_branch");
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const std::optional<Shape> a = output_shape(yes, i), b = output_shape(no, i);
    if (a && b && *a == *b)
      c.set(i, output_type(yes, i), *a);
    else
      c.set_type(i, output_type(yes, i));
  }
}

void run_if(ComputeContext& c) {
  const Graph& branch = body_of(c.node, truth(c.in(0)) ? "then_branch" : "else_branch");
  const std::vector<Tensor> results = c.run_graph(branch, c.inputs.subspan(1));
  for (size_t i = 0; i < results.size(); ++i) give(c, i, results[i]);
}

// --- Loop: trip count?, condition?, state…, captured… → state…, one stacked tensor for each further output of the body ---

size_t loop_states(const Node& node, size_t inputs) {
  if (inputs < 2 + captured(node)) fail("{} inputs, expected at least {}", inputs, 2 + captured(node));
  return inputs - 2 - captured(node);
}

void infer_loop(InferContext& c) {
  const Graph& body = body_of(c.node, "body");
  const size_t states = loop_states(c.node, c.inputs.size());
  expect_outputs(body, 1 + c.outputs.size(), "body");
  expect_inputs(body, c.inputs.size());
  for (size_t i = 0; i < c.outputs.size(); ++i) c.set_type(i, i < states ? type_of(c, 2 + i) : output_type(body, 1 + i));
}

/// A scalar in the shape of one element that the body declares for its input: exporters write [1] for the condition too.
Tensor one_element(const Graph& body, size_t input, const Tensor& scalar) {
  const std::optional<SymShape>& s = body.value(body.inputs()[input]).shape;
  return s && is_static(*s) && elements(to_shape(*s)) == 1 ? scalar.reshaped(to_shape(*s)) : scalar;
}

/// The body's condition is true whatever it computes: a constant, or the condition that it was given.
bool keeps_on(const Graph& body) {
  ValueId v = body.outputs()[0];
  for (NodeId n = body.value(v).producer; n != NodeId::none && body.node(n).is("Identity"); n = body.value(v).producer) {
    v = body.node(n).in(0);
    if (v == ValueId::none) return false;
  }
  const Tensor& constant = body.value(v).constant;
  return v == body.inputs()[1] ||
         (constant.valid() && constant.type() == DType::boolean && constant.size() == 1 && truth(constant));
}

void run_loop(ComputeContext& c) {
  const Graph& body = body_of(c.node, "body");
  const size_t states = loop_states(c.node, c.inputs.size());
  const int64_t trips = c.has(0) ? c.in(0).to_ints().at(0) : INT64_MAX;
  bool go = !c.has(1) || truth(c.in(1));
  std::vector<Tensor> in(2);
  in.insert(in.end(), c.inputs.begin() + 2, c.inputs.end());
  std::vector<std::vector<Tensor>> scanned(c.outputs.size() - states);
  // Without a condition input the body's condition is ignored only when there is a trip count to end the loop.
  const bool counted = !c.has(1) && c.has(0), unconditional = counted || keeps_on(body);
  LoopMemory memory(body, states, trips, unconditional);
  int64_t kept = 0;  // bytes of what was scanned
  in[0] = one_element(body, 0, Tensor::scalar<int64_t>(0));
  in[1] = one_element(body, 1, Tensor::scalar(true));
  const auto r = go ? repeated(c, body, in, 2 + states, 2, states, trips) : nullptr;
  for (size_t s = 0; r && s < states; ++s) {
    copy_bytes(in[2 + s], r->inputs[2 + s]);
    in[2 + s] = r->inputs[2 + s];
  }
  for (int64_t i = 0; i < trips && go; ++i) {
    check_stop();
    memory.before(i, in, kept);
    std::vector<Tensor> out;
    if (r) {
      *static_cast<int64_t*>(r->inputs[0].raw()) = i;
      *static_cast<bool*>(r->inputs[1].raw()) = go;
      turn(*r, i, 2, states);
      go = counted || truth(r->outputs[0]);
      for (size_t k = 1 + states; k < r->outputs.size(); ++k) out.push_back(r->outputs[k].clone());
    } else {
      in[0] = one_element(body, 0, Tensor::scalar(i));
      in[1] = one_element(body, 1, Tensor::scalar(go));
      out = run_iteration(c, body, i, in);
      go = counted || truth(out[0]);
      for (size_t s = 0; s < states; ++s) in[2 + s] = std::move(out[1 + s]);
    }
    const int64_t bytes_each = add_parts(scanned, std::span(out).subspan(r ? 0 : 1 + states));
    kept += bytes_each;
    if (i == 0 && unconditional && !scanned.empty()) check_scanned(bytes_each, trips - 1);
  }
  for (size_t s = 0; s < states; ++s) give(c, s, in[2 + s]);
  for (size_t k = 0; k < scanned.size(); ++k) {
    Shape unseen;  // with no iteration an extent that the body leaves open is 0
    if (const auto& s = body.value(body.outputs()[1 + states + k]).shape) {
      for (const Dim& d : *s) unseen.push_back(d.known() ? d.value : 0);
    }
    give(c, states + k, stacked(scanned[k], 0, false, output_type(body, 1 + states + k), unseen));
  }
}

// --- Scan: state…, scanned…, captured… → state…, stacked… ---

struct ScanForm {
  size_t states = 0, scans = 0, stacks = 0;
  std::vector<int64_t> in_axes, out_axes, in_backward, out_backward;
};

ScanForm scan_form(const Node& node, size_t inputs, size_t outputs) {
  ScanForm f;
  f.scans = static_cast<size_t>(node.get_int("num_scan_inputs", 0));
  if (f.scans < 1 || inputs < f.scans + captured(node)) fail("num_scan_inputs is {} of {} inputs", f.scans, inputs);
  f.states = inputs - captured(node) - f.scans;
  if (outputs < f.states) fail("{} outputs, expected at least one for each of {} states", outputs, f.states);
  f.stacks = outputs - f.states;
  f.in_axes = node.get_ints("scan_input_axes", std::vector<int64_t>(f.scans, 0));
  f.out_axes = node.get_ints("scan_output_axes", std::vector<int64_t>(f.stacks, 0));
  f.in_backward = node.get_ints("scan_input_directions", std::vector<int64_t>(f.scans, 0));
  f.out_backward = node.get_ints("scan_output_directions", std::vector<int64_t>(f.stacks, 0));
  if (f.in_axes.size() != f.scans || f.in_backward.size() != f.scans)
    fail("scan_input_axes and _directions need {} entries", f.scans);
  if (f.out_axes.size() != f.stacks || f.out_backward.size() != f.stacks)
    fail("scan_output_axes and _directions need {} entries", f.stacks);
  return f;
}

/// The scanned inputs' common extent; makes their axes non-negative.
int64_t scan_length(ScanForm& f, const std::function<const Shape&(size_t)>& shape) {
  int64_t length = -1;
  for (size_t k = 0; k < f.scans; ++k) {
    const Shape& s = shape(f.states + k);
    f.in_axes[k] = normalize_axis(f.in_axes[k], static_cast<int64_t>(s.size()));
    const int64_t n = s[static_cast<size_t>(f.in_axes[k])];
    if (length >= 0 && n != length) fail("scanned inputs have {} and {} elements", length, n);
    length = n;
  }
  return length;
}

void infer_scan(InferContext& c) {
  const Graph& body = body_of(c.node, "body");
  ScanForm f = scan_form(c.node, c.inputs.size(), c.outputs.size());
  expect_outputs(body, c.outputs.size(), "body");
  expect_inputs(body, c.inputs.size());
  const int64_t length = scan_length(f, [&](size_t i) -> const Shape& { return c.shape(i); });
  for (size_t s = 0; s < f.states; ++s) same_as(c, s, s);
  for (size_t k = 0; k < f.stacks; ++k) {
    const size_t o = f.states + k;
    std::optional<Shape> shape = output_shape(body, o);
    if (!shape) {
      c.set_type(o, output_type(body, o));
      continue;
    }
    shape->insert(shape->begin() + normalize_axis(f.out_axes[k], static_cast<int64_t>(shape->size()) + 1), length);
    c.set(o, output_type(body, o), *shape);
  }
}

void scan_repeated(ComputeContext& c, const ScanForm& f, RepeatedBody& r, int64_t length) {
  for (size_t s = 0; s < f.states; ++s) copy_bytes(c.in(s), r.inputs[s]);
  std::vector<Tensor> wholes(c.inputs.begin() + static_cast<std::ptrdiff_t>(f.states),
                             c.inputs.begin() + static_cast<std::ptrdiff_t>(f.states + f.scans));
  std::vector<Tensor> stacks;
  std::vector<int64_t> axes;
  int64_t bytes_each = 0;
  for (size_t k = 0; k < f.stacks; ++k) bytes_each += r.outputs[f.states + k].nbytes();
  check_scanned(bytes_each, length - 1);
  for (size_t k = 0; k < f.stacks; ++k) {
    const Tensor& part = r.outputs[f.states + k];
    Shape shape = part.shape();
    axes.push_back(normalize_axis(f.out_axes[k], static_cast<int64_t>(shape.size()) + 1));
    shape.insert(shape.begin() + axes[k], length);
    const Tensor& given = c.outputs[f.states + k];
    const bool fits = given.valid() && given.type() == part.type() && given.shape() == shape;
    stacks.push_back(fits ? given : Tensor::empty(part.type(), shape));
  }
  for (int64_t i = 0; i < length; ++i) {
    check_stop();
    for (size_t k = 0; k < f.scans; ++k)
      copy_element(wholes[k], f.in_axes[k], f.in_backward[k] ? length - 1 - i : i, r.inputs[f.states + k], false);
    turn(r, i, 0, f.states);
    for (size_t k = 0; k < f.stacks; ++k)
      copy_element(stacks[k], axes[k], f.out_backward[k] ? length - 1 - i : i, r.outputs[f.states + k], true);
  }
  for (size_t s = 0; s < f.states; ++s) give(c, s, r.outputs[s]);
  for (size_t k = 0; k < f.stacks; ++k)
    if (!c.outputs[f.states + k].valid() || stacks[k].raw() != c.outputs[f.states + k].raw()) give(c, f.states + k, stacks[k]);
}

void run_scan(ComputeContext& c) {
  const Graph& body = body_of(c.node, "body");
  ScanForm f = scan_form(c.node, c.inputs.size(), c.outputs.size());
  const int64_t length = scan_length(f, [&](size_t i) -> const Shape& { return c.in(i).shape(); });
  std::vector<Tensor> in(c.inputs.begin(), c.inputs.end());
  std::vector<std::shared_ptr<Tensor>> wholes;
  for (size_t k = 0; k < f.scans; ++k) wholes.push_back(std::make_shared<Tensor>(c.in(f.states + k)));
  if (length > 0) {
    for (size_t k = 0; k < f.scans; ++k) in[f.states + k] = element(wholes[k], f.in_axes[k], 0);
    if (const auto r = repeated(c, body, in, f.states + f.scans, 0, f.states, length)) return scan_repeated(c, f, *r, length);
  }
  std::vector<std::vector<Tensor>> scanned(f.stacks);
  for (int64_t i = 0; i < length; ++i) {
    check_stop();
    for (size_t k = 0; k < f.scans; ++k) {
      in[f.states + k] = element(wholes[k], f.in_axes[k], f.in_backward[k] ? length - 1 - i : i);
    }
    std::vector<Tensor> out = run_iteration(c, body, i, in);
    for (size_t s = 0; s < f.states; ++s) in[s] = std::move(out[s]);
    const int64_t bytes_each = add_parts(scanned, std::span(out).subspan(f.states));
    if (i == 0 && f.stacks > 0) check_scanned(bytes_each, length - 1);
  }
  for (size_t s = 0; s < f.states; ++s) give(c, s, in[s]);
  for (size_t k = 0; k < f.stacks; ++k) {
    const size_t o = f.states + k;
    give(c, o,
         stacked(scanned[k], f.out_axes[k], f.out_backward[k] != 0, output_type(body, o),
                 output_shape(body, o).value_or(Shape{})));
  }
}

}  // namespace

std::span<const OpRow> control_ops() {
  static constexpr OpRow table[] = {
      {{"If", onnx_domain, infer_if, run_if}},
      {{"Loop", onnx_domain, infer_loop, run_loop}},
      {{"Scan", onnx_domain, infer_scan, run_scan}},
  };
  return table;
}

}  // namespace smelt::ops

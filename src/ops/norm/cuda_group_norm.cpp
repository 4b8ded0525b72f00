// Normalisations whose rows are no single run of memory for every operand, or longer than a block's registers: group and instance
// normalisation of plain and of channels-last images, very long rows (src/kernels/norm/group.cuh). Specialised on the row's
// extents and strides, the types and the program; the number of rows is an argument.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/norm/offer.h"
#include "ops/norm/problem.h"

namespace smelt::ops {
namespace {

constexpr size_t none = NormParts::none;

/// A tensor over a bundle of groups: x and y first, then the program's operands.
struct View {
  bool input;
  size_t index;  // among the node's inputs or outputs
  DType type;
  int64_t alignment;
  Shape lines;                    // strides along the axes of the lines, elements
  int64_t length = 0, group = 0;  // from one element of a line to the next, from one group to the next
};

struct Groups {
  NormParts parts;
  expr::Program program;  // over a normalised element and the operands
  std::vector<View> views;
  Shape line_extents;  // of the axes of the lines, outermost first
  int64_t length = 1;  // a group's elements side by side
  Views outer;         // bundles
  int64_t bundle = 1;  // groups
  int64_t vec = 1;

  int64_t lines() const { return elements(line_extents); }
  int64_t in_line() const { return bundle * length / vec; }
};

struct Split {
  int64_t threads, held;
  int64_t blocks = 1;  // of a cluster; 0: parts by themselves, whose moments a second kernel merges
};

int64_t size_of(const View& v) { return bytes(v.type, 1); }

Shape with(Shape s, std::initializer_list<int64_t> more) {
  s.insert(s.end(), more);
  return s;
}

/// The groups' axis among the outer ones, so that neighbours along it lie side by side within a line; none.
size_t group_axis(const Groups& p, const Shape& shape, const std::vector<Shape>& strides) {
  for (size_t a = 0; a < p.parts.axis; ++a)
    if (shape[a] > 1 && strides[0][a] == p.length && strides[1][a] == p.length) return a;
  return none;
}

/// Bundles of `bundle` groups along axis g.
void take_bundles(Groups& p, const Shape& shape, const std::vector<Shape>& strides, size_t g, int64_t bundle) {
  const auto outer_of = [&](const Shape& s) { return Shape(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(p.parts.axis)); };
  Shape extents = outer_of(shape);
  std::vector<Shape> steps;
  for (const Shape& s : strides) steps.push_back(outer_of(s));
  if (g != none) {
    extents[g] /= bundle;
    for (Shape& s : steps) s[g] *= bundle;
  }
  p.bundle = bundle;
  p.outer = merged(extents, steps, 0);
  const auto fits = [&](int64_t vec) {
    const View& x = p.views[0];
    Shape all = p.outer.strides[0];
    all.insert(all.end(), x.lines.begin(), x.lines.end());
    return bundle * p.length % vec == 0 && access_step(with(all, {1}), size_of(x), x.alignment, vec) == 1;
  };
  for (p.vec = 16 / size_of(p.views[0]); p.vec > 1 && !fits(p.vec); p.vec /= 2) {
  }
}

/// `numbers`: of the node's inputs among those of the node that runs, where they are not the same.
Result<Groups> problem_of(const BoundNode& b, std::span<const size_t> numbers) {
  Groups p{NormParts(b)};
  if (p.parts.residual != none || p.parts.sum != none)
    return refuse(Reason::unsupported, "groups: a residual, or x is an output too");
  if (p.parts.mean != none || p.parts.inverse != none)
    return refuse(Reason::unsupported, "groups: the mean or the deviation is an output too");
  std::vector<size_t> operands;
  p.program = *norm_program(b, p.parts, true, operands);
  const Shape& shape = b.inputs[0].shape;
  std::vector<Shape> strides;
  const auto add = [&](bool input, size_t index) {
    const BoundTensor& t = input ? b.inputs[index] : b.outputs[index];
    p.views.push_back({input, input && !numbers.empty() ? numbers[index] : index, t.type, t.alignment, {}});
    strides.push_back(broadcast_strides(t, shape.size()));
  };
  add(true, 0);
  add(false, 0);
  for (const size_t i : operands) add(true, i);
  if (elements(shape) == 0) return refuse(Reason::wrong_shape, "groups: nothing to normalise");
  const auto axis = static_cast<std::ptrdiff_t>(p.parts.axis);
  std::vector<Shape> rows;
  for (const Shape& s : strides) rows.emplace_back(s.begin() + axis, s.end());
  Views inner = merged(Shape(shape.begin() + axis, shape.end()), rows, 0);
  if (inner.strides[0].back() != 1 && elements(inner.extents) > 1) {  // one element of each line: the groups are side by side
    inner.extents.push_back(1);
    for (Shape& s : inner.strides) s.push_back(0);
  }
  p.length = inner.extents.back();
  if (p.length > 1 && inner.strides[1].back() != 1) return refuse(Reason::wrong_layout, "groups: x and y lie differently");
  p.line_extents.assign(inner.extents.begin(), inner.extents.end() - 1);
  const size_t g = group_axis(p, shape, strides);
  for (size_t v = 0; v < p.views.size(); ++v) {
    p.views[v].lines.assign(inner.strides[v].begin(), inner.strides[v].end() - 1);
    p.views[v].length = inner.strides[v].back();
    p.views[v].group = g == none ? 0 : strides[v][g];
  }
  if (p.length == 1 && !p.line_extents.empty() && g == none)
    return refuse(Reason::wrong_layout, "groups: elements of x are apart");
  take_bundles(p, shape, strides, none, 1);
  // Accesses of 16 bytes; lines of whole sectors of 32 bytes, at least two (a sector that two blocks write a part of each costs
  // as much as two): as few groups together as that takes.
  // Not where their lines are longer than a block has threads: rows of a length that no vector divides are then read element by element.
  constexpr int64_t sector = 32, most_groups = 32, most_threads = 1024;
  const int64_t size = size_of(p.views[0]);
  const auto whole = [&](const Groups& q) {
    const int64_t line = q.bundle * q.length * size;
    return line % sector == 0 && line >= 2 * sector;
  };
  const auto worth = [&](const Groups& q) { return std::pair(q.vec, whole(q)); };
  Groups best = p;
  for (int64_t bundle = 2; g != none && bundle <= std::min(most_groups, shape[g]); ++bundle) {
    if (shape[g] % bundle != 0) continue;
    take_bundles(p, shape, strides, g, bundle);
    if (p.in_line() <= most_threads && worth(p) > worth(best)) best = p;
  }
  return best;
}

/// ", LineAxis<6, 0, 12>, LineAxis<1, 6, 2>": the axes along which a view's lines are apart, innermost first.
std::string line_axes(const Groups& p, const View& v) {
  std::string text;
  int64_t below = 1;  // lines from one index to the next
  for (size_t a = p.line_extents.size(); a-- > 0; below *= p.line_extents[a])
    if (v.lines[a] != 0) text += fmt::format(", LineAxis<{}, {}, {}>", below, a > 0 ? p.line_extents[a] : 0, v.lines[a]);
  return text;
}

/// How the vectors of a view along a line are accessed; nothing where its elements are not equally far apart.
struct Access {
  std::optional<int64_t> stride;
  int step = -1;
};
Access access_of(const Groups& p, size_t v) {
  const View& view = p.views[v];
  Access a;
  if (p.bundle == 1 || view.group == p.length * view.length)
    a.stride = view.length;
  else if (p.length == 1)
    a.stride = view.group;
  if (p.bundle == 1 && p.length == 1) a.stride = 0;
  if (!a.stride) return a;
  Shape all = p.outer.strides[v];
  all.insert(all.end(), view.lines.begin(), view.lines.end());
  a.step = access_step(with(all, {*a.stride}), size_of(view), view.alignment, p.vec);
  return a;
}

/// A view's type in src/kernels/norm/group.cuh.
std::string view_type(const Groups& p, size_t v) {
  const View& view = p.views[v];
  const std::string_view type = expr::cuda_type(view.type);
  const Access a = access_of(p, v);
  if (a.stride) return fmt::format("GroupView<{}, {}, {}{}>", type, a.step, *a.stride, line_axes(p, view));
  return fmt::format("UnevenGroupView<{}, {}, {}{}>", type, view.group, view.length, line_axes(p, view));
}

/// The kernels of src/kernels/norm/group.cuh for this problem and this split, but for their entries.
std::string source_of(const Groups& p, const Split& s) {
  std::string types;
  for (size_t v = 0; v < p.views.size(); ++v) types += ", " + view_type(p, v);
  std::string code = "#include \"norm/group.cuh\"\n\n" + expr::to_cuda(p.program, "Program");
  return code +
         fmt::format(
             "\nstruct Kernel : GroupNorm<GroupConfig{{.lines = {}, .length = {}, .bundle = {}, .vec = {}, .threads = {},\n"
             "                                      .vectors = {}, .blocks = {}, .centred = {}}},\n"
             "                          Program{}> {{}};\n",
             p.lines(), p.length, p.bundle, p.vec, s.threads, s.held, s.blocks, p.parts.centre, types);
}

LaunchPlan plan_of(const Groups& p, const Split& s, const std::string& name) {
  LaunchPlan plan(name, source_of(p, s));
  const WalkArgument walk(p.outer, 1);
  const int64_t part = s.threads * s.held, parts = (p.lines() * p.in_line() + part - 1) / part, blocks = walk.chunks() * parts;
  const std::string arguments = fmt::format("GroupNormArgs<{}, {}>", p.outer.extents.size(), p.views.size());
  const BufferRef moments = s.blocks == 0 ? plan.reserve(blocks * p.bundle * 8) : BufferRef{};
  const auto launch = [&](const std::string& entry, const std::string& body) {
    Launch& l = plan.launch({entry, fmt::format("{}, 1", s.threads), arguments, body},
                            {.grid = {blocks, 1, 1},
                             .block = {static_cast<unsigned>(s.threads), 1, 1},
                             .cluster = static_cast<unsigned>(std::max<int64_t>(1, s.blocks))});
    for (const View& v : p.views) v.input ? l.input(v.index) : l.output(v.index);
    s.blocks == 0 ? l.at(moments) : l.value(uint64_t{0});
    l.value(walk).value(static_cast<float>(p.parts.epsilon));
  };
  if (s.blocks == 0) launch("part_moments", "Kernel::part_moments");
  launch("group_norm", "Kernel::run");
  return plan;
}

/// The multiple of `unit` that is nearest to `wanted` from below, one of them at least.
int64_t multiple_near(int64_t wanted, int64_t unit) { return std::max<int64_t>(1, wanted / unit) * unit; }

void offer_groups(const BoundNode& b, std::span<const size_t> numbers, const Gpu& gpu, Offer& offer) {
  const auto p = problem_of(b, numbers);
  if (!p) return offer.refuse("cuda", p.refusal());
  if (p->views.size() + 1 > Arguments::most_tensors)
    return offer.refuse("cuda", Reason::too_large, "groups: {} tensors, a kernel takes {}", p->views.size(),
                        Arguments::most_tensors - 1);
  const int64_t vectors = p->lines() * p->in_line();
  if (!WalkArgument::fits(p->outer, 1) || vectors >= int64_t{1} << 30)
    return offer.refuse("cuda", Reason::too_large, "groups: {} accesses a row, {} rows; it counts to 2^30 and 2^31", vectors,
                        elements(p->outer.extents));
  const int64_t bundles = WalkArgument(p->outer, 1).chunks(), multiprocessors = std::max<int64_t>(1, gpu.info.multiprocessors);
  double moved = 0;
  for (size_t v = 0; v < 2; ++v) moved += static_cast<double>(elements(b.inputs[0].shape) * size_of(p->views[v]));
  constexpr int64_t most_held = 12, most_bytes_held = 192;  // vectors of a thread; 48 registers
  const int64_t vector_bytes = p->vec * size_of(p->views[0]);
  const auto add = [&](const Split& s, double us) {
    const std::string config = fmt::format("groups v{} b{} t{} h{}{}", p->vec, p->bundle, s.threads, s.held,
                                           s.blocks == 0  ? " parts"
                                           : s.blocks > 1 ? fmt::format(" cluster {}", s.blocks)
                                                          : "");
    offer.candidates.push_back(
        {"cuda", config, us, [p = *p, s, config, &gpu] { return launched(plan_of(p, s, "norm:" + config), gpu); }});
  };
  const int64_t unit = p->bundle == 1 ? 32 : p->in_line();
  const auto estimate = [&](int64_t blocks) { return norm_estimate_us(gpu, moved, blocks); };
  for (const int64_t blocks : {1, 2, 4, 8}) {
    if (blocks > 1 && (gpu.info.major < 9 || bundles * blocks > 2 * multiprocessors)) break;
    // Few vectors a thread leave little to overlap, many leave few threads: the two splits nearest to four.
    std::vector<Split> splits;
    for (const int64_t wanted : {64, 128, 256, 512, 1024}) {
      Split s{.threads = multiple_near(wanted, unit), .held = 1, .blocks = blocks};
      s.held = (vectors + blocks * s.threads - 1) / (blocks * s.threads);
      const bool all_work = (vectors + s.threads * s.held - 1) / (s.threads * s.held) == blocks;
      // What is held, its element's mean and factor and sum, and the rest, of which the compiler takes more for Blackwell.
      const int64_t rest = gpu.info.major >= 10 ? 72 : 24;
      const int64_t registers = s.held * vector_bytes / 4 + (p->bundle > 1 ? 3 : 1) * p->vec + rest;
      if (s.threads >= 32 && s.threads <= 1024 && s.held <= most_held && s.held * vector_bytes <= most_bytes_held &&
          registers * s.threads < 65536 && all_work)
        splits.push_back(s);
    }
    const auto far = [](const Split& s) { return std::abs(std::log2(static_cast<double>(s.held) / 4)); };
    std::ranges::stable_sort(splits, {}, far);
    for (size_t i = 0; i < std::min<size_t>(2, splits.size()); ++i)
      if (i == 0 || splits[i].threads != splits[0].threads)
        add(splits[i], estimate(bundles * blocks) + (blocks > 1 ? 0.8 : 0) + 0.1 * far(splits[i]));
  }
  Split s{.threads = multiple_near(256, unit), .held = most_bytes_held / vector_bytes, .blocks = 0};
  s.held = std::clamp<int64_t>(vectors * bundles / (multiprocessors * s.threads), 2, std::min(most_held, s.held));
  const int64_t parts = (vectors + s.threads * s.held - 1) / (s.threads * s.held);
  if (s.threads <= 1024 && (parts > 1 || offer.candidates.empty()) && bundles * parts < int64_t{1} << 31)
    add(s, estimate(bundles * parts) + gpu_estimate_us(gpu, moved / 4));
  if (offer.candidates.empty())
    offer.refuse("cuda", Reason::too_large, "groups: no split of a row of {} accesses fits a block", vectors);
}

/// GroupNormalization and InstanceNormalization as ai.smelt.Norm over x seen as [N, G, C/G, …].
struct Seen {
  Node node;
  BoundNode bound;
};

BoundTensor split_channels(BoundTensor t, int64_t groups) {
  const Shape s = memory_strides(t);
  const int64_t in_group = t.shape[1] / groups;
  t.strides = s;
  t.strides[1] = s[1] * in_group;
  t.strides.insert(t.strides.begin() + 2, s[1]);
  t.shape[1] = groups;
  t.shape.insert(t.shape.begin() + 2, in_group);
  t.layout = Layout::plain;
  return t;
}

}  // namespace

void offer_split_rows_cuda(const BoundNode& b, const Gpu& gpu, Offer& offer) { offer_groups(b, {}, gpu, offer); }

void offer_grouped_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  if (b.node->op == "GroupNormalization" && b.node->get_int("stash_type", 1) != 1)
    return offer.refuse("cuda", Reason::wrong_attribute, "it computes in another type than f32");
  const int64_t channels = x.shape[1];
  const int64_t groups = b.node->op == "InstanceNormalization" ? channels : b.node->get_int("num_groups", 1);
  Seen seen;
  seen.node.op = "Norm";
  seen.node.domain = smelt_domain;
  seen.node.attrs = {{"kind", std::string("layer")}, {"axis", int64_t{2}}, {"epsilon", b.node->get_float("epsilon", 1e-5f)}};
  seen.bound.node = &seen.node;
  seen.bound.inputs = {split_channels(x, groups), {}};
  for (const size_t i : {1, 2}) {
    BoundTensor t = b.inputs[i];
    const int64_t count = elements(t.shape);
    t.shape = Shape(x.shape.size(), 1);
    t.shape[0] = groups, t.shape[1] = count / groups;  // one a channel, or (before opset 21) one a group
    seen.bound.inputs.push_back(std::move(t));
  }
  seen.bound.outputs = {split_channels(b.outputs[0], groups)};
  if (const auto why = norm_unknown(seen.bound)) return offer.refuse("cuda", *why);
  constexpr size_t numbers[] = {0, 0, 1, 2};
  offer_groups(seen.bound, numbers, *machine.gpu, offer);
}

}  // namespace smelt::ops

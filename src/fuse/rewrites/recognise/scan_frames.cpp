// Before   Scan whose state is the end of a window that slides over a signal: frame = Concat(state, next samples),
//          state = the frame without its first samples; the frames are its one result, as exporters cut speech into frames
// After    the frames side by side: slices of Concat(first state, all samples) that begin a hop apart, each seen as rows of a hop
// Unless   the body does something else, or the state that remains is read
//          the frames do not lie along the axis before the last, or are taken backwards
//          the hop or the frame is not a known number, or a frame has many hops
#include "fuse/match/extents.h"
#include "fuse/match/match.h"
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr int64_t most_hops = 8;

/// Whether the body joins state and samples, and drops the first `hop` of the frame for the next state.
bool slides(const Graph& body, int64_t hop, int64_t frame) {
  if (body.inputs().size() != 2 || body.outputs().size() != 2) return false;
  NodeId join, drop;
  if (!made_by(body, body.outputs()[1], "Concat", &join) || !made_by(body, body.outputs()[0], "Slice", &drop)) return false;
  const Node& concat = body.node(join);
  const int r = rank(body, concat.out());
  if (r < 1 || concat.inputs != body.inputs() || body.node(drop).in(0) != concat.out()) return false;
  const auto starts = ints(body, drop, "starts", 1), ends = ints(body, drop, "ends", 2), axes = ints(body, drop, "axes", 3);
  const auto last = [r](const std::vector<int64_t>& v) { return v.size() == 1 && normalize_axis(v[0], r) == r - 1; };
  const auto steps = body.node(drop).in(4) == ValueId::none ? std::vector<int64_t>{1} : ints(body, drop, "steps", 4);
  return last({concat.get_int("axis", 0)}) && starts && *starts == std::vector{hop} && ends && ends->size() == 1 &&
         (*ends)[0] >= frame && axes && last(*axes) && steps && *steps == std::vector<int64_t>{1};
}

/// The nodes that take the Scan's place.
class Frames {
 public:
  Frames(Graph& g, NodeId scan, int64_t hop, int64_t frame) : g_(g), scan_(g.node(scan)), hop_(hop), frame_(frame) {
    g_.remove_node(scan);
  }

  NodeId make(int64_t rank) {
    const ValueId y = scan_.outputs[1], samples = scan_.in(1);
    const int64_t state = frame_ - hop_, part = state % hop_;
    std::vector<int64_t> flat(static_cast<size_t>(rank - 2), 0), rows = flat;  // 0: the axis as it is
    flat.push_back(-1);
    rows.insert(rows.end(), {-1, hop_});
    const ValueId line = add("Reshape", {samples, ints(flat)}, rank - 1);
    const ValueId signal = add("Concat", {scan_.in(0), line}, rank - 1, {{"axis", rank - 2}});
    std::vector<ValueId> pieces;
    for (int64_t begin = part ? part - hop_ : 0; begin < state; begin += hop_) {
      const int64_t first = std::max<int64_t>(begin, 0);
      const ValueId run = add("Slice", {signal, ints({first}), ints({first - state}), ints({rank - 2})}, rank - 1);
      const ValueId hops = add("Reshape", {run, ints(rows)}, rank);
      pieces.push_back(begin >= 0 ? hops : add("Slice", {hops, ints({0}), ints({part}), ints({rank - 1})}, rank));
    }
    pieces.push_back(samples);
    return add_node("Concat", scan_.name, std::move(pieces), y, {{"axis", rank - 1}});
  }

 private:
  ValueId ints(const std::vector<int64_t>& v) {
    return g_.add_constant("", Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v));
  }
  NodeId add_node(const char* op, const std::string& name, std::vector<ValueId> inputs, ValueId output,
                  std::map<std::string, Attribute> attrs) {
    const auto at = g_.model.opsets.find("");
    return g_.add_node({.op = op,
                        .name = name,
                        .opset = scan_.opset                   ? scan_.opset
                                 : at == g_.model.opsets.end() ? 0
                                                               : static_cast<int>(at->second),
                        .inputs = std::move(inputs),
                        .outputs = {output},
                        .attrs = std::move(attrs),
                        .sources = scan_.sources,
                        .order = scan_.order});
  }
  ValueId add(const char* op, std::vector<ValueId> inputs, int64_t rank, std::map<std::string, Attribute> attrs = {}) {
    const ValueId v = g_.add_value("", g_.value(scan_.in(0)).type, SymShape(static_cast<size_t>(rank)));
    add_node(op, scan_.name + "_" + op, std::move(inputs), v, std::move(attrs));
    return v;
  }

  Graph& g_;
  const Node scan_;
  const int64_t hop_, frame_;
};

}  // namespace

Outcome scan_frames(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.is("Scan") || node.inputs.size() != 2 || node.outputs.size() != 2 || node.get_int("num_scan_inputs", 0) != 1 ||
      node.get_int("captured", 0) != 0)
    return NotHere{};
  const GraphPtr body = node.get_graph("body");
  const int r = rank(g, node.outputs[1]);
  if (!body || r < 2) return NotHere{};
  const int64_t hop = extent(g, node.in(1), -1).number, frame = extent(g, node.outputs[1], -1).number;
  if (hop < 1 || frame <= hop) return refuse(Reason::unknown_shape, n, "{} has frames of {} by {}", describe(g, n), frame, hop);
  if (!slides(*body, hop, frame)) return refuse(Reason::unsupported, n, "{} does more than cut frames", describe(g, n));
  const auto along = [&](const char* attr) {
    const std::vector<int64_t> axes = node.get_ints(attr, {0});
    return axes.size() == 1 && normalize_axis(axes[0], r) == r - 2;
  };
  if (!along("scan_input_axes") || !along("scan_output_axes"))
    return refuse(Reason::wrong_axis, n, "{} has frames along another axis than the one before the last", describe(g, n));
  for (const char* attr : {"scan_input_directions", "scan_output_directions"})
    if (node.get_ints(attr, {0}) != std::vector<int64_t>{0})
      return refuse(Reason::wrong_attribute, n, "{} runs backwards", describe(g, n));
  if (frame > most_hops * hop)
    return refuse(Reason::not_profitable, n, "frames of {} hops, expected at most {}", frame / hop, most_hops);
  const ValueId state = node.outputs[0];
  if (state != ValueId::none && (!g.readers(state).empty() || g.is_output(state)))
    return refuse(Reason::extra_reader, n, "the last state of {} is read", describe(g, n));
  return Match{{n}, [n, hop, frame, r](Graph& graph) { return Frames(graph, n, hop, frame).make(r); }};
}

}  // namespace smelt::fuse

#include "fuse/match/compose.h"

#include <algorithm>
#include <map>

#include "base/value_of.h"
#include "fuse/match/match.h"
#include "fuse/match/pointwise.h"

namespace smelt::fuse {
namespace {

using expr::Fn;
using expr::Instruction;
using expr::Program;
using expr::Ref;

bool contains(const std::vector<ValueId>& values, ValueId v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

Ref emit(Program& into, const Instruction& i) {
  const auto& code = into.code();
  if (auto same = std::find(code.begin(), code.end(), i); same != code.end()) return static_cast<Ref>(same - code.begin());
  if (i.fn == Fn::constant) return into.constant(i.type, i.value);
  if (i.fn == Fn::cast) return into.cast(i.args[0], i.type);
  switch (expr::info(i.fn).arity) {
    case 1: return into.call(i.fn, i.args[0]);
    case 2: return into.call(i.fn, i.args[0], i.args[1]);
    default: return into.call(i.fn, i.args[0], i.args[1], i.args[2]);
  }
}

/// What r was before it was rounded to a 16-bit float, if it was.
Ref unrounded(const Program& p, Ref r) {
  const Instruction& i = p.code()[static_cast<size_t>(r)];
  return i.fn == Fn::cast && !expr::is_computing(i.type) ? i.args[0] : r;
}

}  // namespace

bool is_pointwise(const Graph& g, NodeId n) { return !not_pointwise(g, n); }

std::vector<ValueId> operands_of(const Graph& g, NodeId n) {
  std::vector<ValueId> operands;
  for (ValueId v : g.node(n).inputs)
    if (v != ValueId::none && !immediate(g.value(v)) && !contains(operands, v)) operands.push_back(v);
  return operands;
}

Program trimmed(const Program& p) {
  std::vector<bool> needed(p.code().size());
  for (Ref r : p.outputs()) needed[static_cast<size_t>(r)] = true;
  for (size_t i = p.code().size(); i-- > 0;)
    if (needed[i])
      for (Ref a : p.code()[i].args)
        if (a >= 0) needed[static_cast<size_t>(a)] = true;
  Program r;
  std::vector<Ref> at(p.code().size(), -1);
  for (size_t i = 0; i < p.code().size(); ++i) {
    Instruction instruction = p.code()[i];
    if (instruction.fn == Fn::input) at[i] = r.input(instruction.type);
    if (instruction.fn == Fn::input || !needed[i]) continue;
    for (Ref& a : instruction.args)
      if (a >= 0) a = at[static_cast<size_t>(a)];
    at[i] = emit(r, instruction);
  }
  for (Ref o : p.outputs()) r.output(at[static_cast<size_t>(o)]);
  return r;
}

Body compose(const Graph& g, const Base* base, std::span<const NodeId> nodes, std::span<const ValueId> results, bool keep_wide) {
  std::vector<ValueId> inside, operands;
  if (base) {
    inside.push_back(base->value);
    operands = base->operands;
  }
  for (NodeId n : nodes) {
    for (ValueId v : operands_of(g, n))
      if (!contains(inside, v) && !contains(operands, v)) operands.push_back(v);
    inside.insert(inside.end(), g.node(n).outputs.begin(), g.node(n).outputs.end());
  }

  // Inputs come first, as they are in memory; then each in its computing type.
  Program p;
  std::vector<Ref> loaded;
  std::map<ValueId, Ref> at;
  if (base) loaded.push_back(p.input(base->program.type(0)));
  for (ValueId v : operands) loaded.push_back(p.input(g.value(v).type));
  const size_t first = base ? 1 : 0;
  for (size_t i = 0; i < operands.size(); ++i)
    at[operands[i]] = p.cast(loaded[first + i], required_computing_type(g.value(operands[i]).type));
  if (base) at[base->value] = unrounded(p, p.splice(base->program, std::span(loaded).first(1 + base->operands.size()))[0]);

  for (NodeId n : nodes) {
    const Node& node = g.node(n);
    std::vector<Ref> args;
    for (ValueId v : node.inputs) {
      if (v == ValueId::none)
        args.push_back(-1);
      else if (auto known = at.find(v); known != at.end())
        args.push_back(known->second);
      else
        args.push_back(at[v] = p.constant(required_computing_type(g.value(v).type),
                                          value_of(immediate(g.value(v)), "the number of a constant input")));
    }
    const std::vector<Ref> made = append_node(p, g, n, args);
    for (size_t i = 0; i < made.size(); ++i)
      if (node.outputs[i] != ValueId::none) at[node.outputs[i]] = made[i];
  }
  for (ValueId v : results) p.output(keep_wide ? at.at(v) : p.cast(at.at(v), g.value(v).type));
  return {trimmed(p), operands};
}

}  // namespace smelt::fuse

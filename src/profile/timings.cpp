#include "profile/timings.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace smelt::profile {
namespace {

std::string joined_path(const std::vector<std::string>& scope, size_t depth) {
  std::string path;
  for (size_t i = 0; i < depth; ++i) path += (i ? "/" : "") + scope[i];
  return path;
}

/// The sets of rows that share a key.
class Groups {
 public:
  size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  size_t of(size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  void join(size_t row, const std::string& key) {
    const auto [at, added] = keys_.try_emplace(key, row);
    if (added) return;
    const size_t a = of(at->second), b = of(row);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parents_;
  std::map<std::string, size_t> keys_;
};

void add(std::optional<double>& sum, double us) { sum = sum.value_or(0) + us; }

}  // namespace

double Timings::total_us() const {
  return std::accumulate(nodes.begin(), nodes.end(), 0.0, [&](double sum, const NodeTime& n) { return sum + n.self_us(gpu); });
}

std::vector<ScopeTime> Timings::scopes() const {
  std::vector<ScopeTime> found;
  std::map<std::string, std::vector<std::string>> inside;  // path → the scopes in it, in their order
  std::map<std::string, ScopeTime> by_path;
  by_path[""] = {};
  for (const NodeTime& n : nodes) {
    for (size_t depth = 0; depth <= n.scope.size(); ++depth) {
      const std::string path = joined_path(n.scope, depth);
      const auto [at, added] = by_path.try_emplace(path);
      ScopeTime& s = at->second;
      if (added) {
        s.path = path;
        s.depth = static_cast<int>(depth);
        inside[joined_path(n.scope, depth - 1)].push_back(path);
      }
      const bool own = depth == n.scope.size();
      s.calls += n.calls;
      s.bytes += n.bytes;
      s.total_us += n.self_us(gpu);
      s.total_cpu_us += n.self_cpu_us;
      s.total_gpu_us += n.self_gpu_us;
      if (!own) continue;
      s.self_us += n.self_us(gpu);
      s.self_cpu_us += n.self_cpu_us;
      s.self_gpu_us += n.self_gpu_us;
    }
  }
  std::vector<std::string> left{""};
  while (!left.empty()) {
    const std::string path = left.back();
    left.pop_back();
    found.push_back(by_path[path]);
    const auto& below = inside[path];
    left.insert(left.end(), below.rbegin(), below.rend());
  }
  return found;
}

std::vector<TimeDifference> scope_differences(const Timings& a, const Timings& b) {
  std::vector<TimeDifference> rows;
  std::map<std::string, size_t> at;
  for (const bool second : {false, true}) {
    size_t after = 0;  // a module that only b has comes behind the one before it
    for (const ScopeTime& s : (second ? b : a).scopes()) {
      auto found = at.find(s.path);
      if (found == at.end()) {
        const size_t where = second ? after : rows.size();
        for (auto& [path, index] : at)
          if (index >= where) ++index;
        rows.insert(rows.begin() + static_cast<int64_t>(where), {s.path, s.depth, {}, {}});
        found = at.emplace(s.path, where).first;
      }
      TimeDifference& row = rows[found->second];
      add(second ? row.b_us : row.a_us, s.total_us);
      after = found->second + 1;
    }
  }
  return rows;
}

std::vector<TimeDifference> node_differences(const Timings& a, const Timings& b) {
  Groups groups;
  for (const Timings* t : {&a, &b})
    for (const NodeTime& n : t->nodes) {
      const size_t row = groups.add();
      for (const std::string& source : n.sources) groups.join(row, source);
      if (n.sources.empty() || !n.name.empty()) groups.join(row, n.name);
    }
  std::vector<TimeDifference> rows;
  std::map<size_t, size_t> row_of;
  size_t index = 0;
  std::map<size_t, size_t> most;  // of a group, how many nodes the name of its row stands for
  for (const bool second : {false, true})
    for (const NodeTime& n : (second ? b : a).nodes) {
      const size_t group = groups.of(index++);
      const auto [at, added] = row_of.try_emplace(group, rows.size());
      if (added) rows.push_back({n.name, 0, {}, {}});
      TimeDifference& row = rows[at->second];
      if (n.sources.size() > most[group]) most[group] = n.sources.size(), row.name = n.name;
      add(second ? row.b_us : row.a_us, n.self_us((second ? b : a).gpu));
    }
  return rows;
}

}  // namespace smelt::profile

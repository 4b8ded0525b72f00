// Mutates models of operators and runs them, as imported, optimised, and with other tactics than the first: outputs, or an Error.
//
//   operator_fuzz OUT --seeds FOLDER… [--seed N] [--seconds S] [--cpu-seconds S] [--cases N] [--device gpu] [--keep FOLDER] [--alone]
//   operator_fuzz OUT --replay CASE… [--device gpu] [--alone]
//   operator_fuzz OUT --extremes --seeds FOLDER… [--every N] [--seed N] [--seconds S] [--device gpu] [--alone]
//
// A child runs case after case, the same ones for the same seed. It writes each to OUT/current before it runs; where the child ends by
// a signal or a sanitizer's report, takes longer than a case may, or finds outputs that differ, the case becomes OUT/findings/N with
// what was said of it. --cpu-seconds counts the processor's time, of which a busy machine gives little in an hour. --keep writes
// cases that run with their outputs (compare.py compares them with ONNX Runtime's). --alone has no child: for tools that do not follow
// forks; the first finding is then the last. --extremes takes one seed of each kind and sets its numbers, attributes and short
// inputs, to what asks for as much as can be said (extremes.h): each has to end within two seconds. It tries every Nth of those, which
// N seeds share.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "fuzz/operators/case.h"
#include "fuzz/operators/extremes.h"
#include "fuzz/operators/ways.h"
#include "support/sanitized.h"

namespace smelt::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned longest_case_s = 60;   // of the processor, without optimisation and with sanitizers; 2 s and less otherwise
constexpr unsigned longest_wait_s = 600;  // of the clock, less what the process was stopped for: a case that sleeps for ever

constexpr double longest_extreme_s = sanitized ? 20 : 2;

struct Arguments {
  fs::path out, keep;
  std::vector<fs::path> seeds, replay;
  uint64_t seed = 1;
  int64_t seconds = 60, cpu_seconds = 1'000'000'000, cases = 1'000'000'000;
  std::string device = "cpu";
  bool alone = false, extremes = false;
  size_t every = 1;
};

Arguments arguments(int count, char** given) {
  Arguments a;
  std::vector<fs::path>* list = nullptr;
  for (int i = 1; i < count; ++i) {
    const std::string s = given[i];
    const auto next = [&] { return i + 1 < count ? std::string(given[++i]) : std::string(); };
    if (s == "--seeds")
      list = &a.seeds;
    else if (s == "--replay")
      list = &a.replay;
    else if (s == "--seed")
      a.seed = std::strtoull(next().c_str(), nullptr, 10);
    else if (s == "--seconds")
      a.seconds = std::atoll(next().c_str());
    else if (s == "--cpu-seconds")
      a.cpu_seconds = std::atoll(next().c_str());
    else if (s == "--cases")
      a.cases = std::atoll(next().c_str());
    else if (s == "--device")
      a.device = next();
    else if (s == "--alone")
      a.alone = true;
    else if (s == "--extremes")
      a.extremes = true;
    else if (s == "--every")
      a.every = std::strtoull(next().c_str(), nullptr, 10);
    else if (s == "--keep")
      a.keep = next();
    else if (list)
      list->emplace_back(s);
    else
      a.out = s;
  }
  return a;
}

/// The processor's seconds that this process took, or its ended children.
int64_t cpu_seconds(int whose) {
  rusage used{};
  getrusage(whose, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec;
}

std::atomic<int> ticks_left;
constexpr int tick_s = 10;

/// Counts the clock down. A process that is stopped misses all ticks but one, so that a pause is no wait.
void tick(int) {
  if (--ticks_left > 0) return;
  signal(SIGALRM, SIG_DFL);
  raise(SIGALRM);
}

/// A case that computes for too long, or waits for too long, ends the child by a signal; the last one gets two minutes beyond the end.
void limit_case(std::chrono::steady_clock::time_point end, unsigned longest_s) {
  constexpr int64_t beyond_s = 120;
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(end - std::chrono::steady_clock::now()).count();
  ticks_left = static_cast<int>(std::min<int64_t>(longest_wait_s, std::max<int64_t>(left, 0) + beyond_s) / tick_s);
  struct sigaction counted {};
  counted.sa_handler = tick;
  counted.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &counted, nullptr);
  const itimerval clock{{tick_s, 0}, {tick_s, 0}}, computing{{0, 0}, {longest_s, 0}};
  setitimer(ITIMER_REAL, &clock, nullptr);
  setitimer(ITIMER_PROF, &computing, nullptr);
}

/// What the child has done, which the parent reads after it has ended.
struct Progress {
  uint64_t next = 0, ran = 0, refused = 0, kept = 0;
};

/// A seed, and what is changed of it.
struct Tried {
  fs::path seed;
  Extreme extreme;
};

/// Of one seed of each kind, what its numbers can ask for.
std::vector<Tried> all_extremes(const std::vector<fs::path>& models, size_t first, size_t every) {
  std::vector<Tried> all;
  std::set<std::string> seen;
  for (const fs::path& path : models) try {
      Random random(1);
      const OperatorCase c = read_case(path, random);
      if (!seen.insert(kind_of(c)).second) continue;
      for (const Extreme& e : extremes_of(c)) all.push_back({path, e});
    } catch (const Error&) {  // an input that is no tensor
    }
  std::vector<Tried> some;
  for (size_t i = first; i < all.size(); i += every) some.push_back(all[i]);
  return some;
}

/// Reads the numbers of cases off `progress` on, until time is over.
void child(const Arguments& a, const std::vector<fs::path>& models, const std::vector<Tried>& tried, Progress& progress,
           std::chrono::steady_clock::time_point end) {
  if (!sanitized && a.device == "cpu") {  // AddressSanitizer and CUDA take terabytes of addresses
    const rlimit memory{size_t{8} << 30, size_t{8} << 30};
    setrlimit(RLIMIT_AS, &memory);
  }
  const auto goes_on = [&] {
    return std::chrono::steady_clock::now() < end && cpu_seconds(RUSAGE_SELF) < a.cpu_seconds &&
           progress.next < static_cast<uint64_t>(a.cases);
  };
  for (; goes_on(); ++progress.next) {
    limit_case(end, a.extremes ? static_cast<unsigned>(8 * longest_extreme_s) : longest_case_s);
    Random random(a.extremes ? 1
                             : a.seed * 0x9e3779b97f4a7c15ull +
                                   progress.next * 0xbf58476d1ce4e5b9ull);  // numbers are those of all_extremes()
    std::optional<OperatorCase> c;
    try {
      const bool replays = !a.replay.empty();
      c = read_case(replays      ? a.replay[progress.next % a.replay.size()]
                    : a.extremes ? tried[progress.next].seed
                                 : models[random() % models.size()],
                    random);
      if (a.extremes && !replays)
        apply(*c, tried[progress.next].extreme);
      else if (!replays)
        mutate(*c, random);
      write_case(*c, {}, {}, a.out / "current");
    } catch (const Error&) {  // an input that is no tensor, a data file elsewhere
      ++progress.refused;
      continue;
    }
    const Outcome o = a.extremes ? run_soon(*c, a.device, longest_extreme_s) : run_in_every_way(*c, a.device, random);
    ++(o.refused.empty() ? progress.ran : progress.refused);
    if (getenv("SMELT_FUZZ_VERBOSE")) fprintf(stderr, "%s: %s\n", c->name.c_str(), o.refused.c_str());
    if (o.refused.empty() && !o.outputs.empty() && !a.keep.empty() && repeatable(*c))
      write_case(*c, o.outputs, o.sequences, a.keep / fmt::format("{:06}_{}", progress.kept++, c->name));
  }
}

int fuzz(const Arguments& a) {
  std::vector<fs::path> models;
  for (const fs::path& folder : a.seeds)
    for (const fs::path& m : list_models(folder)) models.push_back(m);
  if (models.empty() && a.replay.empty()) {
    fprintf(stderr,
            "usage: operator_fuzz OUT (--seeds FOLDER… [--seed N] [--seconds S] [--cpu-seconds S] [--cases N] | --replay CASE…) "
            "[--device gpu] "
            "[--keep FOLDER] [--alone]\n");
    return 2;
  }
  Arguments b = a;
  if (!a.replay.empty()) b.cases = static_cast<int64_t>(a.replay.size());
  std::vector<Tried> tried;
  if (a.extremes && a.replay.empty()) {
    tried = all_extremes(models, a.seed % a.every, a.every);
    b.cases = std::min(a.cases, static_cast<int64_t>(tried.size()));
  }
  fs::create_directories(a.out / "findings");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(a.seconds);
  auto* progress = new (mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Progress;
  int findings = 0;
  if (a.alone) child(b, models, tried, *progress, end);
  while (!a.alone && std::chrono::steady_clock::now() < end && progress->next < static_cast<uint64_t>(b.cases)) {
    const fs::path log = a.out / "log";
    b.cpu_seconds = a.cpu_seconds - cpu_seconds(RUSAGE_CHILDREN);
    if (b.cpu_seconds <= 0) break;
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int to = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
      dup2(to, 1), dup2(to, 2);
      child(b, models, tried, *progress, end);
      _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const fs::path kept = a.out / "findings" / std::to_string(progress->next);
    fs::remove_all(kept);
    if (fs::exists(a.out / "current"))
      fs::rename(a.out / "current", kept);
    else
      fs::create_directories(kept);
    fs::rename(log, kept / "log");
    const std::string why = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : fmt::format("status {}", WEXITSTATUS(status));
    std::string said = read_text(kept / "log");
    for (const char* mark : {"finding:", "SUMMARY:", "runtime error:"})
      if (const size_t at = said.find(mark); at != std::string::npos) {
        said = said.substr(at, said.find('\n', at) - at);
        break;
      }
    printf("%s: %s: %s\n", kept.c_str(), why.c_str(), said.substr(0, 300).c_str());
    fflush(stdout);
    ++findings;
    ++progress->next;
  }
  printf("%lu cases, %lu ran, %lu were refused, %d findings, %ld s of the processor\n", progress->next, progress->ran,
         progress->refused, findings, cpu_seconds(a.alone ? RUSAGE_SELF : RUSAGE_CHILDREN));
  return findings > 0;
}

}  // namespace
}  // namespace smelt::fuzz

int main(int count, char** given) { return smelt::fuzz::fuzz(smelt::fuzz::arguments(count, given)); }

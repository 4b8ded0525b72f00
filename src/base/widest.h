// How many threads what a thread runs is shared among: whether a kernel would run alike with another number of them.
#pragma once

namespace smelt::threads {

/// The threads of the widest region (base/threads.h) that this thread opens while it is in scope. Scopes nest.
class Widest {
 public:
  Widest();
  ~Widest();
  Widest(const Widest&) = delete;
  /// 1: what ran had this thread alone.
  int threads() const;

 private:
  int before_;
};

}  // namespace smelt::threads

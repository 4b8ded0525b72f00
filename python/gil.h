// Python's lock, let go and taken, by threads that outlive Python: daemon threads in a run when the program ends.
#pragma once

#include <cxxabi.h>
#include <Python.h>
#include <unistd.h>

namespace smelt::python {

/// Takes the lock by `take`. Before 3.14 Python ends a thread that asks for it after its end by pthread_exit, which C++ takes for
/// an exception and a destructor for std::terminate: the thread stays here instead, until the process ends.
template <class Take> auto take_or_stay(const Take& take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

/// No lock while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    take_or_stay([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// The lock while it lives, in any thread.
class Locked {
 public:
  Locked() : state_(take_or_stay([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace smelt::python

// Marks what the shared library exports. All else is hidden, so that smelt, torch, onnx and onnxruntime can share a process.
#pragma once
#if defined(SMELT_STATIC)
#define SMELT_API
#else
#define SMELT_API __attribute__((visibility("default")))
#endif

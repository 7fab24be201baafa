// What the programs in CUDA C++ share: the command line of run.py, without the sizes.
//
//     PROGRAM bad|fixed [--steps N] [--seconds S] [--turns FOLDER] [--check]
//
// A program defines `struct Program` with a constructor from `bool bad`, `void step(int number)` and
// `double result()`.
#pragma once

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#define CHECKED(call)                                                                       \
  do {                                                                                      \
    const cudaError_t status = (call);                                                      \
    if (status != cudaSuccess) {                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (false)

template <typename Program>
double timed(Program& program, int& number, int steps, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int done = 0;
  while (done < steps && (done < 3 || passed() < seconds)) {
    program.step(number++);
    ++done;
  }
  CHECKED(cudaDeviceSynchronize());
  return passed() / done * 1e3;
}

// What profilers record.
template <typename Program>
double captured(Program& program, int& number, int steps, double seconds) {
  CHECKED(cudaProfilerStart());
  const double found = timed(program, number, steps, seconds);
  CHECKED(cudaProfilerStop());
  return found;
}

template <typename Program>
int compare(double tolerance) {
  double results[2];
  for (const bool bad : {true, false}) {
    Program program(bad);
    for (int number = 0; number < 3; ++number) program.step(number);
    CHECKED(cudaDeviceSynchronize());
    results[bad] = program.result();
  }
  const double found = std::abs(results[0] - results[1]) / std::max(std::abs(results[1]), 1e-12);
  std::printf("results differ by %.2e, tolerance %.0e\n", found, tolerance);
  return found <= tolerance ? 0 : 1;
}

template <typename Program>
int run(int count, char** words) {
  bool bad = true;
  int steps = 20;
  double seconds = 4;
  std::string folder;
  for (int place = 1; place < count; ++place) {
    const std::string word = words[place];
    const auto next = [&] { return std::string(place + 1 < count ? words[++place] : ""); };
    if (word == "bad" || word == "fixed") bad = word == "bad";
    if (word == "--steps") steps = std::stoi(next());
    if (word == "--seconds") seconds = std::stod(next());
    if (word == "--turns") folder = next();
    if (word == "--check") return compare<Program>(1e-6);
  }
  Program program(bad);
  int number = 0;
  timed(program, number, 4, 1e9);
  if (!folder.empty()) {
    std::ifstream asked(folder + "/ask");
    std::ofstream answer(folder + "/answer");
    answer << "ready" << std::endl;
    for (std::string line; std::getline(asked, line);) {
      timed(program, number, 1, 1e9);
      answer << "mean " << captured(program, number, steps, seconds) << std::endl;
    }
    return 0;
  }
  std::printf("ms_per_step %.3f\n", captured(program, number, steps, seconds));
  return 0;
}

// Particles follow helices in a magnetic field. Literals without a suffix turn the arithmetic of
// the bad variant's kernel into double precision; the fixed variant writes them as floats.
#include "blind.h"

namespace {

constexpr int kParticles = 1 << 20;
constexpr int kLayers = 12;  // launches of a step
constexpr int kSubsteps = 16;
constexpr int kThreads = 256;

struct Track {
  float x, y, z, px, py, pz;
};

// A substep of `Real` literals; what they meet is computed with their precision.
template <typename Real>
__device__ Track moved(Track track, float field, float length) {
  const float momentum =
      sqrtf(track.px * track.px + track.py * track.py + track.pz * track.pz);
  const float angle = field * length / momentum * Real(0.3);
  const float half = Real(0.5) * angle;
  const float tangent = half * (Real(1.0) + half * half / Real(3.0));
  const float sine = Real(2.0) * tangent / (Real(1.0) + tangent * tangent);
  const float less = Real(2.0) * tangent * tangent / (Real(1.0) + tangent * tangent);
  const float straight = Real(1.0) - angle * angle / Real(6.0);
  const float bent = angle * Real(0.5) - angle * angle * angle / Real(24.0);
  const float along = length / momentum;
  Track next = track;
  next.x += along * (track.px * straight - track.py * bent);
  next.y += along * (track.py * straight + track.px * bent);
  next.z += along * track.pz;
  next.px = track.px * (Real(1.0) - less) - track.py * sine;
  next.py = track.py * (Real(1.0) - less) + track.px * sine;
  return next;
}

template <typename Real>
__global__ void follow(const Track* from, Track* to, float field) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  Track track = from[place];
  for (int substep = 0; substep < kSubsteps; ++substep) {
    const float radius = sqrtf(track.x * track.x + track.y * track.y);
    const float here = field * float(Real(1.0) - Real(1e-3) * radius / (Real(1.0) + radius));
    track = moved<Real>(track, here, 0.05f);
  }
  to[place] = track;
}

// Loses energy in the material of a layer.
__global__ void scatter(Track* tracks, float lost) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  Track track = tracks[place];
  const float kept = 1.0f - lost / (1.0f + track.pz * track.pz);
  track.px *= kept;
  track.py *= kept;
  track.pz *= kept;
  tracks[place] = track;
}

__global__ void begin(Track* tracks, int number) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  const float turn = static_cast<float>((place * 37 + number * 11) % 1009) / 1009.0f * 6.28f;
  const float size = 0.5f + static_cast<float>(place % 97) / 20.0f;
  tracks[place] = {0, 0, 0, size * cosf(turn), size * sinf(turn),
                   static_cast<float>(place % 31) / 15.0f - 1.0f};
}

struct Program {
  explicit Program(bool bad) : bad(bad) {
    for (Track** buffer : {&tracks, &next}) {
      CHECKED(cudaMalloc(buffer, kParticles * sizeof(Track)));
    }
  }
  ~Program() {
    for (Track* buffer : {tracks, next}) cudaFree(buffer);
  }
  Program(const Program&) = delete;

  void step(int number) {
    constexpr int kBlocks = kParticles / kThreads;
    begin<<<kBlocks, kThreads>>>(tracks, number);
    for (int layer = 0; layer < kLayers; ++layer) {
      if (bad) {
        follow<double><<<kBlocks, kThreads>>>(tracks, next, 2.0f);
      } else {
        follow<float><<<kBlocks, kThreads>>>(tracks, next, 2.0f);
      }
      Track* kept = tracks;
      tracks = next;
      next = kept;
      scatter<<<kBlocks, kThreads>>>(tracks, 0.002f);
    }
    CHECKED(cudaGetLastError());
  }

  // The mean distance from the origin.
  double result() {
    Track* values = new Track[kParticles];
    CHECKED(cudaMemcpy(values, tracks, kParticles * sizeof(Track), cudaMemcpyDeviceToHost));
    double total = 0;
    for (int place = 0; place < kParticles; ++place) {
      const Track& track = values[place];
      total += std::sqrt(track.x * track.x + track.y * track.y + track.z * track.z);
    }
    delete[] values;
    return total / kParticles;
  }

  bool bad;
  Track *tracks, *next;
};

}  // namespace

int main(int count, char** words) { return run<Program>(count, words); }

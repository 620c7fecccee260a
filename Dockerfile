# mcage in a container, from the files of this repository alone.
#
#   docker build -t mcage .                                    # CPU
#   docker build -t mcage-cuda --build-arg EXTRAS=[cuda12] .   # GPUs; also [cuda13]
#
# `mcage docs install` says how to run both, and how Apptainer makes its image from them.

FROM python:3.11-slim-bookworm AS build
# git tells the commit, which results record.
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . /mcage
RUN git config --global --add safe.directory /mcage && pip wheel --no-deps --wheel-dir /wheels /mcage

FROM python:3.11-slim-bookworm
ARG EXTRAS=""
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/mcage-*.whl)${EXTRAS}" && rm -r /wheels
# Any user may run mcage here: what it compiles and keeps goes to a folder that all may write.
ENV NUMBA_CACHE_DIR=/cache/numba MCAGE_CACHE=/cache/mcage CUPY_CACHE_DIR=/cache/cupy MPLCONFIGDIR=/cache/matplotlib
RUN mkdir -m 1777 /cache
# What the NVIDIA container runtime gives to a container that asks for GPUs.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
ENTRYPOINT ["mcage"]

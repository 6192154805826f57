# Builds the module from this checkout into Valkey's own image, with Docker and a registry:
#   docker build -t valkeybloom . && docker run --rm -p 6379:6379 valkeybloom
# build.sh does not test it. The image of a release comes from `./build.sh image`, which does: docs/container.md.
ARG VALKEY=9.1
# Debian 12, so that the module needs no newer libc than any Debian image of Valkey has.
FROM rust:1-bookworm AS build
WORKDIR /valkeybloom
COPY . .
RUN ./build.sh build

FROM valkey/valkey:${VALKEY}
COPY --from=build /valkeybloom/target/release/valkeybloom.so /usr/lib/valkey/modules/valkeybloom.so
# Options after the image's name replace this command, and with it the line that loads the module: your own configuration
# file must contain that line.
CMD ["valkey-server", "--loadmodule", "/usr/lib/valkey/modules/valkeybloom.so"]

# The module, built from this checkout, in a Valkey image:
#   docker build -t valkeybloom . && docker run --rm -p 6379:6379 valkeybloom
ARG VALKEY=9.1
# Of Debian 12, so that the module needs no newer libc than any Valkey image on Debian has.
FROM rust:1-bookworm AS build
WORKDIR /valkeybloom
COPY . .
RUN ./build.sh build

FROM valkey/valkey:${VALKEY}
COPY --from=build /valkeybloom/target/release/valkeybloom.so /usr/lib/valkey/modules/valkeybloom.so
# Options that follow the image's name would replace the line that loads the module: a configuration file of your
# own has to have it.
CMD ["valkey-server", "--loadmodule", "/usr/lib/valkey/modules/valkeybloom.so"]

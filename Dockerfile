# The service and nothing else: a static binary that runs as nobody, with its
# database in /data.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What timer-service version prints: docker build --build-arg VERSION=$(git describe --tags --always --dirty)
ARG VERSION=
RUN GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X main.release=$VERSION" -o /out/timer-service ./cmd/timer-service && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/timer-service /usr/local/bin/timer-service
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
ENV PATH=/usr/local/bin TIMER_DB_PATH=/data/timer-service/timers.db
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["timer-service", "health"]
ENTRYPOINT ["timer-service"]
CMD ["serve"]

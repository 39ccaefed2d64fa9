/* usage: runner_renew STATE DAYS   Renews the certificate of an enrolled runner as `sijil-runner serve` does, with a clock that is so many days ahead. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runner/enrolment/certificate.h"

#define DAY_MS INT64_C(86400000)

int main(int argc, char **argv)
{
    OWNED(runner_state) *state = NULL;
    struct error err = {0};
    bool renewed = false;

    if (argc != 3) return 2;
    if (!runner_state_open(argv[1], &state, &err).ok ||
        !runner_renew(state, clock_wall_ms() + strtol(argv[2], NULL, 10) * DAY_MS, &renewed, &err).ok) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    (void)puts(renewed ? "renewed" : "good");
    return 0;
}

#include "cmd/sijil_runner_enroll.h"

#include <getopt.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/terminal.h"
#include "cmd/options.h"
#include "runner/enrolment/certificate.h"
#include "runner/enrolment/show.h"

enum { EXIT_REFUSED = 1, EXIT_WAITING = 3, TEXT_MAX = 16 << 10 };

const char *runner_enroll_option(struct runner_enroll *settings, int option, bool *is_known_out)
{
    struct enroll_options *options = &settings->options;

    *is_known_out = true;
    switch (option) {
    case RUNNER_CODE_FILE: options->code_file = optarg; return NULL;
    case RUNNER_ROOT: options->root_file = optarg; return NULL;
    case RUNNER_SIGNER: options->signer_file = optarg; return NULL;
    case RUNNER_LOG_KEY: options->log_key = optarg; return NULL;
    case RUNNER_WAIT: settings->waits = true; return NULL;
    default: *is_known_out = false; return NULL;
    }
}

/* A message may quote the registry. */
static void say(const char *message)
{
    struct error shown;

    (void)snprintf(shown.message, sizeof shown.message, "%s", message);
    terminal_sanitize(shown.message);
    (void)fprintf(stderr, "sijil-runner: %s\n", shown.message);
}

static int failed(const struct error *err)
{
    say(err->message);
    return EXIT_REFUSED;
}

static int print(const struct runner_state *state, bool json, FILE *out)
{
    struct buffer OWNED_BUFFER text = BUFFER(TEXT_MAX);
    OWNED_JSON value = NULL;
    struct error err = {0};

    if (json) {
        if (!runner_show_json(state, &value, &err).ok || !json_write_canonical(&text, value, &err).ok ||
            !buffer_add_text(&text, "\n", &err).ok)
            return failed(&err);
    } else if (!runner_show_text(state, &text, &err).ok) return failed(&err);
    return fputs(buffer_text(&text), out) >= 0 && fflush(out) == 0 ? 0 : EXIT_REFUSED;
}

/* ---- the certificate ---- */

static int wait_for_certificate(struct runner_state *state, const volatile sig_atomic_t *cancelled)
{
    const struct certificate_waiting waiting = {cancelled, say};
    struct error err = {0};
    bool is_there = false;

    if (!certificate_wait(state, &waiting, &is_there, &err).ok) return failed(&err);
    return is_there ? 0 : EXIT_WAITING;
}

static int get_certificate(const struct runner_enroll *settings, struct runner_state *state,
                           const volatile sig_atomic_t *cancelled)
{
    struct error err = {0};

    if (settings->waits) {
        (void)fprintf(stderr, "It waits for its approval: sijil runner approve %s %s --key KEY\n", state->registry.host,
                      state->name);
        return wait_for_certificate(state, cancelled);
    }
    if (certificate_get(state, clock_wall_ms(), &err).ok) return 0;
    if (err.kind != ERROR_DENIED && err.kind != ERROR_UNAVAILABLE) return failed(&err);
    say(err.message);
    (void)fprintf(stderr,
                  "It waits for its approval: sijil runner approve %s %s --key KEY. Then: sijil-runner enroll --state=%s\n",
                  state->registry.host, state->name, settings->options.state);
    return EXIT_WAITING;
}

/* As `serve` does; a certificate that is good for a while stays. */
static int renew(struct runner_state *state)
{
    struct error err = {0};
    bool renewed = false;

    return runner_renew(state, clock_wall_ms(), &renewed, &err).ok ? 0 : failed(&err);
}

/* ---- the commands ---- */

/* A folder whose enrolment has begun goes on without a code. */
static struct result begin(const struct runner_enroll *settings, struct runner_state **state_out, struct error *err)
{
    const struct result opened = runner_state_open(settings->options.state, state_out, err);

    if (opened.ok && settings->options.code_file == NULL) return SUCCESS;
    if (opened.ok) {
        runner_state_free(GIVE(*state_out));
        return failure(err, ERROR_CONFLICT,
                       "%.150s has a runner already: leave --code-file out, or name another folder with --state",
                       settings->options.state);
    }
    if (err->kind != ERROR_NOT_FOUND) return opened;
    if (settings->options.code_file == NULL)
        return failure(err, ERROR_INVALID, "--code-file is needed: the file that `sijil runner invite` has written");
    return enroll(&settings->options, state_out, err);
}

int runner_enroll(const struct runner_enroll *settings, const volatile sig_atomic_t *cancelled)
{
    OWNED(runner_state) *state = NULL;
    struct error err = {0};
    int status = 0;

    if (!begin(settings, &state, &err).ok) return failed(&err);
    if (state->certificate_until_ms == 0) {
        (void)fprintf(stderr, "Tell the approvers the name of the key, by another channel than the registry: %s\n", state->name);
        if (!settings->json) (void)print(state, false, stderr);
        status = get_certificate(settings, state, cancelled);
    } else status = renew(state);
    return status == 0 ? print(state, settings->json, stdout) : status;
}

int runner_show(const struct runner_enroll *settings)
{
    OWNED(runner_state) *state = NULL;
    struct error err = {0};

    if (!runner_state_open(settings->options.state, &state, &err).ok) return failed(&err);
    return print(state, settings->json, stdout);
}

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "embedded/bootstrap.h"
#include "embedded/embedded_priv.h"
#include "policy/places.h"

static struct result write_public(const struct embedded *embedded, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    char path[PATH_SIZE];

    TRY(path_join(path, embedded->paths.officer, "approver.pub.pem", err));
    TRY(ecdsa_key_public_pem(key, &pem, err));
    return file_replace(path, buffer_bytes(&pem), 0644, err);
}

static struct result write_set(const struct embedded *embedded, const struct ecdsa_key *key, const char *path, struct error *err)
{
    const struct embedded_options *options = &embedded->options;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    const struct policy_default_options choices = {
        .epoch = 1,
        .region = embedded->settings.metadata_region,
        .geo = options->geo,
        .operator_name = options->operator_name,
        .now_ms = clock_wall_ms(),
        .network = options->network,
    };

    TRY(policy_default_set(&choices, &payload, err));
    TRY(policy_set_sign(buffer_bytes(&payload), key, &envelope, err));
    TRY(file_replace(path, buffer_bytes(&envelope), 0644, err));
    log_line(LOG_INFO, "signed the first policy set", "file", path, NULL);
    return SUCCESS;
}

static struct result check_value(const char *option, const char *value, const struct policy_default_options *choices,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error why = {0};

    if (value == NULL || policy_default_set(choices, &payload, &why).ok) return SUCCESS;
    return failure(err, why.kind, "%s %.60s: %.150s", option, value, why.message);
}

/* Only at the first start: later the option is ignored, and a code that ISO 3166 has withdrawn shall not stop the registry. */
static struct result check_geo(const struct embedded_options *options, struct error *err)
{
    char path[PATH_SIZE];
    bool is_there = false;

    if (options->geo == NULL || place_is_known(options->geo)) return SUCCESS;
    TRY(path_join(path, options->directory, "officer/policy-set.json", err));
    TRY(file_is_there(path, &is_there, err));
    if (is_there) return SUCCESS;
    return failure(err, ERROR_INVALID, "--geo %.60s: no country of ISO 3166, and no part of one: AE, AE/DU", options->geo);
}

/* Each value separately, so that the error names the option. */
struct result approver_check(const struct embedded_options *options, struct error *err)
{
    struct policy_default_options choices = {.epoch = 1, .region = EMBEDDED_REGION, .now_ms = clock_wall_ms()};

    choices.geo = options->geo;
    TRY(check_value("--geo", options->geo, &choices, err));
    TRY(check_geo(options, err));
    choices.operator_name = options->operator_name;
    TRY(check_value("--operator", options->operator_name, &choices, err));
    choices.network = options->network;
    return check_value("--network", options->network, &choices, err);
}

/* Warns about an option that counts at the first start only. Its value may be that of the first start, as in a service's unit
 * file. */
static void warn_of_late(const char *option, const char *value)
{
    if (value == NULL) return;
    log_line(LOG_WARNING,
             "this option counts at the first start only, and is ignored: a signed policy set says where the machine is",
             "option", option, "value", value, NULL);
}

/* The gateway can read the public half and the signed set, never the key. */
static struct result prepare(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    OWNED(ecdsa_key) *key = NULL;
    char set[PATH_SIZE];
    bool is_there = false;

    TRY(path_join(set, embedded->paths.officer, "policy-set.json", err));
    TRY(file_is_there(set, &is_there, err));
    if (is_there) {
        warn_of_late("--geo", embedded->options.geo);
        warn_of_late("--operator", embedded->options.operator_name);
        warn_of_late("--network", embedded->options.network);
        return SUCCESS;
    }
    TRY(embedded_key_at(embedded->paths.approver, &key, err));
    TRY(write_public(embedded, key, err));
    return write_set(embedded, key, set, err);
}

struct result approver_prepare(struct embedded *embedded, struct error *err)
{
    return step_run(&embedded->users.self, prepare, embedded, err);
}

/* The supervisor opens the files, so that the gateway can write the secrets but not read them again. */
struct bootstrap {
    const struct embedded *embedded;
    enum bootstrap_admin admin;
    int admin_fd, trainer_fd;
};

static struct result bootstrap_as_gateway(void *context, struct error *err)
{
    const struct bootstrap *bootstrap = context;
    char approver[PATH_SIZE], set[PATH_SIZE];
    bool made_admin;

    TRY(path_join(approver, bootstrap->embedded->paths.officer, "approver.pub.pem", err));
    TRY(path_join(set, bootstrap->embedded->paths.officer, "policy-set.json", err));
    const struct bootstrap_options options = {.settings = &bootstrap->embedded->settings,
                                              .admin_is_person = true,
                                              .approver = approver,
                                              .policy_set = set,
                                              .admin = bootstrap->admin,
                                              .admin_fd = bootstrap->admin_fd,
                                              .makes_trainer = bootstrap->trainer_fd >= 0,
                                              .trainer_fd = bootstrap->trainer_fd};
    return bootstrap_registry(&options, &made_admin, err);
}

static struct result open_fresh(const char *path, char fresh_out[PATH_SIZE + 4], int *fd_out, struct error *err)
{
    (void)snprintf(fresh_out, PATH_SIZE + 4, "%s.new", path);
    return file_open(fresh_out, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, fd_out, err);
}

/* Nothing was written if the project was there already: then the trainer was made with it, or left out. */
static struct result keep_trainer(const char *path, const char *fresh, int file, struct error *err)
{
    uint64_t size = 0;

    TRY(file_size(file, &size, err));
    if (size == 0) return unlink(fresh) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "%s: %s", fresh, strerror(errno));
    TRY(file_rename(fresh, path, err));
    log_line(LOG_INFO, "made a robot that trains in the first project", "file", path, NULL);
    return SUCCESS;
}

/* An administrator whose secret did not reach its file is useless, so another one replaces it. */
static struct result bootstrap_with_administrator(struct embedded *embedded, bool with_trainer, struct error *err)
{
    const struct paths *paths = &embedded->paths;
    char fresh[PATH_SIZE + 4], trainer[PATH_SIZE + 4];
    OWNED_FD file = -1;
    OWNED_FD other = -1;

    TRY(open_fresh(paths->admin, fresh, &file, err));
    if (with_trainer) TRY(open_fresh(paths->trainer, trainer, &other, err));
    struct bootstrap bootstrap = {embedded, BOOTSTRAP_ADMIN_ANEW, file, other};
    TRY(step_run(&embedded->users.gateway, bootstrap_as_gateway, &bootstrap, err));
    if (with_trainer) TRY(keep_trainer(paths->trainer, trainer, other, err));
    TRY(file_rename(fresh, paths->admin, err));
    log_line(LOG_INFO, "made an administrator", "file", paths->admin, NULL);
    return SUCCESS;
}

static struct result bootstrap_without_administrator(struct embedded *embedded, struct error *err)
{
    struct bootstrap bootstrap = {embedded, BOOTSTRAP_ADMIN_ONCE, -1, -1};

    return step_run(&embedded->users.gateway, bootstrap_as_gateway, &bootstrap, err);
}

/* Runs once, or for a new administrator; an interrupted run is repeated. */
struct result bootstrap_all(struct embedded *embedded, struct error *err)
{
    const struct embedded_options *options = &embedded->options;
    const bool wants_new = options->new_admin;
    char marker[PATH_SIZE];
    bool is_initialised = false, has_admin = false, has_key = false;

    TRY(path_join(marker, embedded->paths.directory, "bootstrapped", err));
    TRY(file_is_there(marker, &is_initialised, err));
    if (is_initialised && !wants_new) return SUCCESS;
    TRY(file_is_there(embedded->paths.admin, &has_admin, err));
    if (has_admin && !wants_new) TRY(bootstrap_without_administrator(embedded, err));
    else TRY(bootstrap_with_administrator(embedded, !is_initialised && !options->no_runner, err));
    TRY(file_is_there(embedded->paths.administrator_key, &has_key, err));
    if (has_key || (!is_initialised && !options->officers_by_bindings)) TRY(officers_appoint(embedded, err));
    return file_replace(marker, bytes_of_text("1\n"), 0644, err);
}

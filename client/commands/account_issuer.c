/* The part of `sijil login` and `sijil logout` that concerns an issuer: a person logs in there, and logs out there. */
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/provider/code.h"
#include "client/provider/device.h"
#include "client/renew.h"
#include "client/terminal.h"

#define CLIENT_ID    "sijil"
#define SCOPE        "openid offline_access"
#define BROWSER_MS   (10LL * 60 * 1000)
#define SUBJECT_SIZE 256 /* OpenID Connect Core, 2 */
#define PROGRAM      "/usr/bin/xdg-open"

static struct result take(const struct invocation *invocation, int letter, const char *otherwise, char *place, size_t room,
                          struct error *err)
{
    const char *value = invocation_option(invocation, letter);

    if (value == NULL && place[0] != '\0') return SUCCESS; /* of the stored login */
    if (!text_copy(place, room, value == NULL ? otherwise : value))
        return failure(err, ERROR_INVALID, "'%.80s...' is too long", value);
    return SUCCESS;
}

static struct result take_ca_file(const struct invocation *invocation, struct host_issuer *issuer, struct error *err)
{
    const char *path = invocation_option(invocation, 'C');

    return path == NULL ? SUCCESS : login_find_ca_file(path, issuer->ca_file, sizeof issuer->ca_file, err);
}

struct result login_issuer_options(const struct invocation *invocation, struct host_login *login, struct error *err)
{
    const char *url = invocation_option(invocation, 'i');
    struct host_issuer *issuer = &login->issuer;
    char resource[HOST_RESOURCE_SIZE];

    if (url != NULL && invocation_option(invocation, 'u') != NULL)
        return failure(err, ERROR_INVALID, "--username is a robot's or a token's, --issuer a person's: give one of them");
    if (url != NULL && strcmp(url, issuer->url) != 0) *issuer = (struct host_issuer){0};
    if (!text_copy(issuer->url, sizeof issuer->url, url == NULL ? issuer->url : url))
        return failure(err, ERROR_INVALID, "the issuer's URL is too long");
    if (issuer->url[0] == '\0') return SUCCESS;
    explicit_bzero(issuer->refresh, sizeof issuer->refresh);
    (void)snprintf(resource, sizeof resource, "https://%s", invocation->operands[0]);
    TRY(take(invocation, 'I', CLIENT_ID, issuer->client_id, sizeof issuer->client_id, err));
    TRY(take(invocation, 's', SCOPE, issuer->scope, sizeof issuer->scope, err));
    TRY(take(invocation, 'r', resource, issuer->resource, sizeof issuer->resource, err));
    return take_ca_file(invocation, issuer, err);
}

/* ---- What the person is asked to do ---- */

static bool is_set(const char *name)
{
    return getenv(name) != NULL && getenv(name)[0] != '\0';
}

/* $BROWSER as an absolute path, else xdg-open on a desktop; NULL: a browser can't be opened here. */
static const char *browser_program(void)
{
    if (is_set("BROWSER") && getenv("BROWSER")[0] == '/') return getenv("BROWSER");
    return (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && access(PROGRAM, X_OK) == 0 ? PROGRAM : NULL;
}

/* A browser that does not open is no failure: the person has the address. */
static void open_browser(const char *url)
{
    const char *program = browser_program();
    posix_spawn_file_actions_t actions;
    char *words[] = {NULL, NULL, NULL};
    char path[PATH_MAX], address[CODE_URL_MAX];
    pid_t process;

    if (program == NULL || !text_copy(path, sizeof path, program) || !text_copy(address, sizeof address, url)) return;
    words[0] = path;
    words[1] = address;
    if (posix_spawn_file_actions_init(&actions) != 0) return;
    if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0)
        (void)posix_spawn(&process, path, &actions, NULL, words, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
}

/* Takes over `value`. */
static void tell_program(json_t *value)
{
    if (value != NULL && json_dumpf(value, stderr, JSON_COMPACT) == 0) (void)fputc('\n', stderr);
    json_decref(value);
}

static void show_page(void *context, const char *url)
{
    const struct invocation *invocation = context;

    if (invocation->json) tell_program(json_pack("{s:s}", "page", url));
    else (void)fprintf(stderr, "Log in with a browser of this machine:\n\n    %s\n\n", url);
    open_browser(url);
}

static void show_code(void *context, const struct device_prompt *prompt)
{
    const struct invocation *invocation = context;

    if (invocation->json) {
        tell_program(json_pack("{s:s,s:s,s:s*}", "page", prompt->page, "code", prompt->code, "page_with_code",
                               prompt->page_with[0] == '\0' ? NULL : prompt->page_with));
        return;
    }
    (void)fprintf(stderr, "Log in with any browser, also of another machine:\n\n    %s\n\nand type the code %s\n", prompt->page,
                  prompt->code);
    if (prompt->page_with[0] != '\0')
        (void)fprintf(stderr, "or open %s\nand check that it shows this code.\n", prompt->page_with);
}

/* ---- Logging in and out ---- */

static struct result take_port(const struct invocation *invocation, int64_t *port_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'P');
    uint64_t port = 0;

    if (text != NULL && (!text_to_u64(bytes_of_text(text), 65535, &port) || port == 0))
        return failure(err, ERROR_INVALID, "--callback-port %.20s: 1 to 65535", text);
    if (text != NULL) *port_out = (int64_t)port;
    return SUCCESS;
}

static struct result get_tokens(struct invocation *invocation, struct provider *issuer, struct host_login *login,
                                struct provider_tokens *tokens, struct error *err)
{
    const bool wants_device = invocation_option(invocation, 'd') != NULL,
               wants_browser = invocation_option(invocation, 'b') != NULL;
    const bool has_browser = browser_program() != NULL || provider_metadata(issuer)->device[0] == '\0';
    const char *acr_values = invocation_option(invocation, 'a');
    const bool is_fresh = invocation_option(invocation, 'f') != NULL || acr_values != NULL;
    struct code_browser browser = {
        .show = show_page, .context = invocation, .longest_ms = BROWSER_MS, .is_fresh = is_fresh, .acr_values = acr_values};

    if (wants_device && wants_browser)
        return line_check(invocation, failure(err, ERROR_INVALID, "--device or --browser, not both"));
    if (wants_device && is_fresh)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "--fresh needs a browser: a code can be talked out of somebody"));
    TRY(line_check(invocation, take_port(invocation, &login->issuer.callback_port, err)));
    browser.port = (unsigned)login->issuer.callback_port;
    if (wants_device || (!wants_browser && !is_fresh && invocation_option(invocation, 'P') == NULL && !has_browser))
        return device_log_in(issuer, show_code, invocation, tokens, err);
    return code_log_in(issuer, &browser, tokens, err);
}

static void keep(const struct provider_tokens *tokens, struct host_login *login)
{
    (void)text_copy(login->username, sizeof login->username, "oidc");
    (void)text_copy(login->password, sizeof login->password, tokens->access);
    (void)text_copy(login->issuer.refresh, sizeof login->issuer.refresh, tokens->refresh);
    login->issuer.expires_ms = tokens->expires_ms;
}

struct result login_at_issuer(struct invocation *invocation, struct host_login *login, struct error *err)
{
    const struct provider_options options = host_issuer_options(login, invocation->verbose);
    OWNED(provider) *issuer = NULL;
    OWNED_TOKENS tokens = {0};

    TRY(provider_open(&options, &issuer, err));
    TRY(get_tokens(invocation, issuer, login, &tokens, err));
    keep(&tokens, login);
    return SUCCESS;
}

bool login_can_ask(const struct invocation *invocation)
{
    const bool has_program = is_set("BROWSER") && getenv("BROWSER")[0] == '/';

    return !invocation->json && (has_program || terminal_is_there());
}

/* The subject of a JWT, whose signature the registry checks. False: it has none that can be read. */
static bool read_subject(const char *token, char subject_out[SUBJECT_SIZE])
{
    struct bytes left = bytes_of_text(token);
    struct buffer OWNED_BUFFER payload = BUFFER(PROVIDER_ACCESS_SIZE);
    OWNED_JSON claims = NULL;
    struct error ignored = {0};

    (void)text_cut(&left, '.');
    if (!text_from_base64(&payload, BASE64_URL, text_cut(&left, '.'), &ignored).ok) return false;
    if (!json_read(buffer_bytes(&payload), PROVIDER_ACCESS_SIZE, &claims, &ignored).ok) return false;
    const char *subject = json_text_of(claims, "sub");
    return subject != NULL && text_copy(subject_out, SUBJECT_SIZE, subject);
}

/* A command that one person has begun does not go on as another one. */
static struct result check_person(const char *before, const char *after, struct error *err)
{
    char first[SUBJECT_SIZE], second[SUBJECT_SIZE];

    if (read_subject(before, first) && read_subject(after, second) && strcmp(first, second) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "another person has logged in at the issuer, so the request was not sent again");
}

static struct result ask_again(struct invocation *invocation, const char *acr_values, struct host_login *login, struct error *err)
{
    const struct provider_options options = host_issuer_options(login, invocation->verbose);
    const struct code_browser browser = {.show = show_page,
                                         .context = invocation,
                                         .longest_ms = BROWSER_MS,
                                         .port = (unsigned)login->issuer.callback_port,
                                         .is_fresh = true,
                                         .acr_values = acr_values[0] == '\0' ? NULL : acr_values};
    OWNED(provider) *issuer = NULL;
    OWNED_TOKENS tokens = {0};

    TRY(provider_open(&options, &issuer, err));
    TRY(code_log_in(issuer, &browser, &tokens, err));
    TRY(check_person(login->password, tokens.access, err));
    keep(&tokens, login);
    return SUCCESS;
}

struct result login_again(struct invocation *invocation, const char *host, const char *acr_values, struct error *err)
{
    struct host_login login = {0};
    OWNED_FD lock = -1; /* a renewal of the login before would replace this one */

    TRY(host_login_stored(host, &login, err));
    struct result result = ask_again(invocation, acr_values, &login, err);
    if (result.ok) result = host_lock_renewal(&lock, err);
    if (result.ok) result = host_login_save(host, &login, err);
    explicit_bzero(&login, sizeof login);
    return result;
}

struct result login_revoke(const struct invocation *invocation, const struct host_login *login, struct error *err)
{
    const struct provider_options options = host_issuer_options(login, invocation->verbose);
    OWNED(provider) *issuer = NULL;
    OWNED_TOKENS tokens = {0};

    (void)text_copy(tokens.access, sizeof tokens.access, login->password);
    (void)text_copy(tokens.refresh, sizeof tokens.refresh, login->issuer.refresh);
    TRY(provider_open(&options, &issuer, err));
    if (provider_metadata(issuer)->revokes_for_bearer && login->issuer.expires_ms < clock_wall_ms() && tokens.refresh[0] != '\0')
        TRY(provider_renew(issuer, login->issuer.refresh, &tokens, err));
    return provider_revoke(issuer, &tokens, err);
}

void login_withdraw(const struct invocation *invocation, const struct host_login *login)
{
    struct error ignored = {0};

    (void)login_revoke(invocation, login, &ignored).ok;
}

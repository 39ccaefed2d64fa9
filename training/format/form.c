#include "training/format/form.h"

#include <string.h>

#include "base/clock.h"
#include "base/network.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/uuid.h"
#include "training/format/artifact_types.h"
#include "training/format/public_key.h"
#include "training/format/spec.h"

#define LOWER     "abcdefghijklmnopqrstuvwxyz"
#define UPPER     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS    "0123456789"
#define HEX       "0123456789abcdef"
#define NAME_MAX  63
#define PARTS_MAX 255 /* bytes of a repository; DOCUMENT_SCOPE_SIZE has the same bound */

static bool consists_of(const char *text, size_t length, const char *letters)
{
    return text_consists_of((struct bytes){(const uint8_t *)text, length}, letters);
}

/* `length` letters, and nothing else. */
static bool is_exactly(const char *text, size_t length, const char *letters)
{
    return strlen(text) == length && consists_of(text, length, letters);
}

bool form_uuid(const char *text)
{
    struct uuid uuid;

    return uuid_parse(bytes_of_text(text), &uuid) && !uuid_is_nil(&uuid);
}

bool form_hex(const char *text)
{
    return is_exactly(text, 64, HEX);
}

bool form_digest(const char *text)
{
    return strncmp(text, "sha256:", 7) == 0 && form_hex(text + 7);
}

bool form_time(const char *text)
{
    char again[CLOCK_TEXT_SIZE];
    int64_t wall_ms = 0;

    if (!clock_parse(bytes_of_text(text), &wall_ms)) return false;
    clock_format(wall_ms, again);
    return strcmp(again, text) == 0;
}

static bool is_name(const char *text, size_t length)
{
    return length >= 1 && length <= NAME_MAX && consists_of(text, 1, LOWER DIGITS) &&
           consists_of(text, length, LOWER DIGITS "-_.");
}

bool form_name(const char *text)
{
    return is_name(text, strlen(text));
}

bool form_output_name(const char *text)
{
    return form_name(text) && strcmp(text, "log") != 0 && strcmp(text, "metrics") != 0;
}

/* The number of names with a slash between; 0 if one is not a name. */
static unsigned count_names(const char *text)
{
    unsigned count = 0;

    if (strlen(text) > PARTS_MAX) return 0;
    for (;;) {
        const size_t length = strcspn(text, "/");
        if (!is_name(text, length)) return 0;
        count++;
        if (text[length] == '\0') return count;
        text += length + 1;
    }
}

bool form_project(const char *text)
{
    return count_names(text) == 2;
}

bool form_repository(const char *text)
{
    return count_names(text) >= 3;
}

bool form_principal(const char *text)
{
    if (strncmp(text, "robot:", 6) == 0) return form_uuid(text + 6);
    return strncmp(text, "ext:", 4) == 0 && form_hex(text + 4);
}

bool form_thumbprint(const char *text)
{
    return is_exactly(text, 43, LOWER UPPER DIGITS "-_");
}

bool form_nonce(const char *text)
{
    return is_exactly(text, 32, HEX);
}

bool form_public_key(const char *text)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    return public_key_point(text, point) && point[0] == 0x04;
}

/* RFC 6838, 4.2. A name has at most 127 characters; the first is a letter or a digit. */
static bool is_restricted_name(const char *text, size_t length)
{
    return length >= 1 && length <= 127 && consists_of(text, 1, LOWER UPPER DIGITS) &&
           consists_of(text, length, LOWER UPPER DIGITS "!#$&-^_.+");
}

/* Without parameters. */
static bool is_media_type(const char *text)
{
    const size_t type = strcspn(text, "/");

    return text[type] == '/' && is_restricted_name(text, type) && is_restricted_name(text + type + 1, strlen(text + type + 1));
}

bool form_output_type(const char *text)
{
    return is_media_type(text) && !run_artifact_is_reserved(text);
}

bool form_jurisdiction(const char *text)
{
    const size_t length = strlen(text);

    return length >= 1 && length <= 32 && consists_of(text, 1, UPPER) && consists_of(text, length, UPPER DIGITS "-");
}

bool form_shown(const char *text)
{
    return terminal_is_printable(text);
}

bool form_variable(const char *text)
{
    const size_t length = strlen(text);

    return length >= 1 && length <= 128 && !consists_of(text, 1, DIGITS) && consists_of(text, length, UPPER DIGITS "_") &&
           strncmp(text, "SIJIL_", strlen("SIJIL_")) != 0; /* the sandbox's own */
}

/* Not every URL is one of an issuer; that the registry decides. No other text begins as a URL does. */
bool form_issuer(const char *text)
{
    static const char scheme[] = "https://";
    const char *at = text;

    if (strcmp(text, "sijil:registry") == 0 || strcmp(text, "sijil:rule") == 0) return true;
    if (strncmp(text, scheme, strlen(scheme)) != 0 || text[strlen(scheme)] == '\0') return false;
    while (*at > ' ' && *at < 0x7f) at++;
    return *at == '\0';
}

bool form_task_variable(const char *text)
{
    static const char *const names[] = {"RANK",
                                        "LOCAL_RANK",
                                        "ROLE_RANK",
                                        "GROUP_RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_WORLD_SIZE",
                                        "ROLE_WORLD_SIZE",
                                        "GROUP_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "TORCHELASTIC_MAX_RESTARTS"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) return true;
    return false;
}

bool form_network(const char *text)
{
    return strcmp(text, "none") == 0 || strcmp(text, "tasks") == 0;
}

int form_isolation_rank(const char *text)
{
    enum isolation isolation;

    return isolation_find(text, &isolation) ? (int)isolation : -1;
}

bool form_is_of_type(const char *name, const char *type)
{
    const size_t length = strlen(type);

    if (length == 0) return true;
    for (const char *at = strstr(name, type); at != NULL; at = strstr(at + 1, type))
        if ((at == name || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) return true;
    return false;
}

bool form_isolation(const char *text)
{
    return form_isolation_rank(text) >= 0;
}

bool form_status(const char *text)
{
    return strcmp(text, "succeeded") == 0 || strcmp(text, "failed") == 0 || strcmp(text, "cancelled") == 0 ||
           strcmp(text, "timeout") == 0;
}

bool form_runner_urn(const char *text)
{
    const size_t length = strlen(FORM_RUNNER_URN);

    return strncmp(text, FORM_RUNNER_URN, length) == 0 && form_uuid(text + length);
}

bool form_run_urn(const char *text)
{
    const size_t length = strlen(FORM_RUN_URN);

    return strncmp(text, FORM_RUN_URN, length) == 0 && form_uuid(text + length);
}

bool form_repository_urn(const char *text)
{
    const size_t length = strlen(FORM_REPOSITORY_URN);

    return strncmp(text, FORM_REPOSITORY_URN, length) == 0 && form_repository(text + length);
}

#define ADDRESS_MAX 47 /* bytes of an address; INET6_ADDRSTRLEN with its '\0' is 46 */

bool form_endpoint(const char *text)
{
    const char *colon = strrchr(text, ':');
    const bool has_brackets = text[0] == '[';
    const size_t host = colon == NULL ? 0 : (size_t)(colon - text), edge = has_brackets ? 1 : 0;
    char address[ADDRESS_MAX] = "";
    struct network network;
    uint64_t port = 0;

    if (host <= 2 * edge || host - 2 * edge >= sizeof address || (has_brackets && colon[-1] != ']')) return false;
    memcpy(address, text + edge, host - 2 * edge);
    if (!network_of_address(address, &network) || network_is_ipv4(&network) == has_brackets) return false;
    return colon[1] != '0' && text_to_u64(bytes_of_text(colon + 1), 65535, &port) && port > 0;
}

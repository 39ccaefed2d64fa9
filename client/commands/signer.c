/* The key with which a command signs: a file, or a key in a token. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/terminal.h"
#include "client/token_key.h"

#define PIN_MAX    256 /* PKCS#11 has no limit; tokens take 4 to 64 */
#define FILE_COLON "file:"

/* Others that may read it could sign in the holder's name. */
static struct result check_mode(const char *option, const char *path, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status;

    TRY(file_open(path, O_RDONLY, 0, &fd, err));
    TRY(file_status(fd, &status, err));
    if ((status.st_mode & 077) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s %.200s: others may read it: chmod 600 it", option, path);
}

static struct result load_file(const char *path, struct ecdsa_key **key_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    TRY(local(ecdsa_key_load(path, &key, err), path, err));
    if (!ecdsa_key_is_private(key)) return failure(err, ERROR_INVALID, "--key %.200s: a public key; the private one signs", path);
    TRY(local(check_mode("--key", path, err), path, err));
    *key_out = GIVE(key);
    return SUCCESS;
}

/* ---- the PIN of a token ---- */

static struct result take_pin(char *line, struct secret **pin_out, struct error *err)
{
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0') return failure(err, ERROR_INVALID, "the PIN is empty");
    return secret_copy(bytes_of_text(line), pin_out, err);
}

static struct result read_file(const char *path, char line[PIN_MAX], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PIN_MAX - 1);
    uint8_t *reserved = NULL;

    TRY(local(check_mode("pin-source", path, err), path, err));
    TRY(buffer_reserve(&text, PIN_MAX - 1, &reserved, err)); /* growing would leave copies of the PIN */
    const struct result is_read = local(file_read(path, &text, err), path, err);
    if (is_read.ok) (void)snprintf(line, PIN_MAX, "%.*s", (int)text.length, (const char *)text.data);
    secret_wipe(text.data, text.capacity);
    return is_read;
}

/* pin-source is a path or a file: URI; RFC 7512, 2.4, leaves other forms to the application. */
static struct result pin_of_file(const char *source, char line[PIN_MAX], struct error *err)
{
    const char *path = strncmp(source, FILE_COLON, strlen(FILE_COLON)) == 0 ? source + strlen(FILE_COLON) : source;

    if (strncmp(path, "///", 3) == 0) path += 2;
    if (path[0] != '/' || path[1] == '/') return failure(err, ERROR_INVALID, "pin-source is the absolute path of a file");
    return read_file(path, line, err);
}

static struct result read_pin(void *context, const char *label, const char *source, struct secret **pin_out, struct error *err)
{
    char line[PIN_MAX] = "", prompt[64]; /* "PIN of the token " and a label of 32 */

    (void)context;
    (void)snprintf(prompt, sizeof prompt, "PIN of the token %s", label);
    terminal_sanitize(prompt);
    struct result result = source == NULL ? terminal_secret(prompt, line, sizeof line, err) : pin_of_file(source, line, err);
    if (result.ok) result = take_pin(line, pin_out, err);
    secret_wipe(line, sizeof line);
    return result;
}

struct result command_signer(struct invocation *invocation, struct ecdsa_key **key_out, struct error *err)
{
    const char *path = invocation_option(invocation, 'k'), *uri = invocation_option(invocation, 'P');
    const struct token_key_options token = {.uri = uri, .read_pin = read_pin};

    if ((path == NULL) == (uri == NULL))
        return line_check(
            invocation,
            failure(err, ERROR_INVALID, "one of --key, the file of a private key, and --pkcs11, a key in a token, is needed"));
    return path != NULL ? load_file(path, key_out, err) : token_key_open(&token, key_out, err);
}

struct result command_other_signer(struct invocation *invocation, int letter, struct ecdsa_key **key_out, struct error *err)
{
    const char *named = invocation_option(invocation, (char)letter);
    const struct token_key_options token = {.uri = named, .read_pin = read_pin};

    *key_out = NULL;
    if (named == NULL) return SUCCESS;
    return strncmp(named, "pkcs11:", 7) == 0 ? token_key_open(&token, key_out, err) : load_file(named, key_out, err);
}

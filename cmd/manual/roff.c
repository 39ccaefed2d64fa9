#include "cmd/manual/manual.h"

#include <string.h>

#define TAG_SIZE 128 /* an option with letter, name and argument, and some more */

/* Characters that roff would interpret: groff_char(7). */
static const char *special(char letter)
{
    switch (letter) {
    case '\\': return "\\e";
    case '-': return "\\-";
    case '\'': return "\\(aq";
    case '"': return "\\(dq";
    case '`': return "\\(ga";
    case '^': return "\\(ha";
    case '~': return "\\(ti";
    default: return NULL;
    }
}

static void put(FILE *out, const char *text)
{
    bool at_start = true;

    for (; *text != '\0'; text++) {
        const char *name = special(*text);
        if (at_start && *text == '.') (void)fputs("\\&", out);
        if (name != NULL) (void)fputs(name, out);
        else (void)fputc(*text, out);
        at_start = *text == '\n';
    }
}

void roff_begin(FILE *out, const char *name, int section, const char *summary)
{
    (void)fputs(".\\\" Made while building, from the tables of the programs. Do not edit.\n.TH \"", out);
    for (const char *letter = name; *letter != '\0'; letter++)
        (void)fputc(*letter >= 'a' && *letter <= 'z' ? *letter - 'a' + 'A' : *letter, out);
    (void)fprintf(out, "\" \"%d\" \"\" \"Sijil " SIJIL_VERSION "\" \"Sijil\"\n.nh\n.ad l\n.SH NAME\n", section);
    put(out, name);
    (void)fputs(" \\- ", out);
    put(out, summary);
    (void)fputc('\n', out);
}

void roff_section(FILE *out, const char *title)
{
    (void)fputs(".SH \"", out);
    put(out, title);
    (void)fputs("\"\n", out);
}

void roff_subsection(FILE *out, const char *title)
{
    (void)fputs(".SS \"", out);
    put(out, title);
    (void)fputs("\"\n", out);
}

void roff_paragraph(FILE *out)
{
    (void)fputs(".PP\n", out);
}

void roff_line(FILE *out, char font, const char *text)
{
    (void)fprintf(out, "\\f%c", font);
    put(out, text);
    (void)fputs("\\fR\n", out);
}

void roff_item(FILE *out, const char *tag, const char *text)
{
    (void)fputs(".TP\n", out);
    roff_line(out, 'B', tag);
    put(out, text);
    (void)fputc('\n', out);
}

void roff_options(FILE *out, const struct option_row *rows, size_t count, bool with_letters)
{
    char tag[TAG_SIZE];

    for (size_t i = 0; i < count; i++) {
        option_spelling(&rows[i], with_letters && rows[i].letter < 128, tag, sizeof tag);
        roff_item(out, tag, rows[i].help);
    }
}

void roff_see_also(FILE *out, const char *const *pages)
{
    roff_section(out, "SEE ALSO");
    for (size_t i = 0; pages[i] != NULL; i++) {
        const char *bracket = strchr(pages[i], '(');
        (void)fputs("\\fB", out);
        for (const char *letter = pages[i]; letter < bracket; letter++)
            (void)fprintf(out, "%s%c", *letter == '-' ? "\\" : "", *letter);
        (void)fprintf(out, "\\fR%s%s\n", bracket, pages[i + 1] == NULL ? "" : ",");
    }
}

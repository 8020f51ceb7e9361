"""One file for each family of checks; each looks at counts once a look and says what it saw."""

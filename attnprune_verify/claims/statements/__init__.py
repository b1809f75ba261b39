"""The paper's statements, one file per statement or tight family; each module has a tuple CLAIMS."""

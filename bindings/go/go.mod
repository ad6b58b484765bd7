module uext4

go 1.19
